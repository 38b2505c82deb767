fn f() {
    let a = 300u8;
    let b = -129i8;
    let c = -128i8;
    let d = 128i8;
    let e = 1e999;
    let g = 170141183460469231731687303715884105728;
    let h = 5q8;
    let i = 1.5u32;
    let j = c"abc";
    let k = 0xffi16;
}
