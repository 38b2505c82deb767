fn f() {
    g();
}}
