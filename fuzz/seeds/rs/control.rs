fn f() {
    let a = "‮x";
}
