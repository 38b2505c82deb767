fn f() {
    let a = A { x: 1, .. };
    let b = vec![1; 2, 3];
    let c = matches!(a);
}
