fn f() {
    g(“abc”, 3 × 4);
}
