fn f() {
    let a = 'ab';
}
