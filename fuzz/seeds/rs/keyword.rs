fn f(type: u32) {}
