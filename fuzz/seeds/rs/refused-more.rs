enum Kind { One = 1, Two }

fn f(x: u32) -> u32 {
    let a = async { 1 };
    let b = const { 2 };
    let c = include_str!("x.txt");
    let d = env!("HOME");
    let e = my_macro![1, 2];
    let g = &raw const x;
    let h = <u32 as Default>::default();
    let i = _;
    let j = |y: u32| -> u32 { y };
    match x {
        LOW..=HIGH => 1,
        n @ 1..=3 => n,
        _ => 0,
    }
}
