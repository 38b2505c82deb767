fn f() {
    g("abc);
}
