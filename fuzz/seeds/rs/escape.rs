fn f() {
    let a = "a\qb";
}
