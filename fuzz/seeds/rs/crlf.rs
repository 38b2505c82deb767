fn f() {
	let a = 1
	let b = é2;
}
