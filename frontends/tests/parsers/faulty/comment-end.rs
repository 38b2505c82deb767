fn f() {
    /* one /* two */
}
