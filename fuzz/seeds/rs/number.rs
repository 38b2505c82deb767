fn f() {
    let a = 0b12;
}
