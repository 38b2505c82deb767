fn f(x: u32) {
    format!("{}");
    format!("{} {}", x);
    format!("{}", x, x);
    format!("{x", 1);
    format!("x}");
    format!("{x.y}");
    format!("{:w$}", x);
    format!("{:.*}", 3, x);
    format!("{:q}", x);
    format!("{a}", a = 1, a = 2);
    format!("{a} {}", a = 1, x);
    format!(x);
    format!();
    format!("{3}", x);
    format!("é\n{x:>99999999}");
    assert!();
    assert_eq!(x);
    panic!("{}", );
}
