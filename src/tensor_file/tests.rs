//! Files of every element type, hostile files, lists of numbers, and names of outputs.

use super::*;
use tallow_executor::DType;
use tallow_ir::{DType as IrType, Dim, Shape};

fn f32s(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_dtype(DType::F32).unwrap().to_vec1().unwrap()
}

fn i64s(tensor: &Tensor) -> Vec<i64> {
    tensor.flatten_all().unwrap().to_dtype(DType::I64).unwrap().to_vec1().unwrap()
}

/// An array file as NumPy writes it.
fn array(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// A safetensors file: name, element type, shape and bytes of each tensor.
fn tensors(entries: &[(&str, &str, &str, &[u8])]) -> Vec<u8> {
    let (mut header, mut data) = (Vec::new(), Vec::new());
    for (name, dtype, shape, bytes) in entries {
        let (from, to) = (data.len(), data.len() + bytes.len());
        header.push(format!("\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[{from},{to}]}}"));
        data.extend_from_slice(bytes);
    }
    let header = format!("{{{}}}", header.join(","));
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

fn written(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn arrays_of_every_type_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let t = Tensor::from_vec(vec![1f32, -2.5, 3.0, 4.0, 5.0, 6.0], (2, 3), &Device::Cpu).unwrap();
    let ids = Tensor::from_vec(vec![1i64, -2, i64::MAX], 3, &Device::Cpu).unwrap();
    let flags = Tensor::from_vec(vec![1u8, 0], 2, &Device::Cpu).unwrap();
    let outputs = [
        ("a/b", t.clone(), "'<f4'", DType::F32),
        ("half", t.to_dtype(DType::F16).unwrap(), "'<f2'", DType::F16),
        ("brain", t.to_dtype(DType::BF16).unwrap(), "'<f4'", DType::F32),
        ("columns", t.t().unwrap(), "'<f4'", DType::F32),
        ("ids", ids.clone(), "'<i8'", DType::I64),
        ("flags", flags.clone(), "'|u1'", DType::U8),
    ];
    let named: Vec<_> = outputs.iter().map(|(name, t, ..)| ((*name).to_owned(), t.clone())).collect();
    let files = write(folder.path(), &named).unwrap();
    assert!(files[0].ends_with("a_b.npy"));
    for (file, (name, tensor, descr, dtype)) in files.iter().zip(&outputs) {
        assert!(String::from_utf8_lossy(&std::fs::read(file).unwrap()).contains(descr), "{name}");
        let again = read(file, "x").unwrap();
        assert_eq!((again.dtype(), again.dims()), (*dtype, tensor.dims()), "{name}");
        match dtype {
            DType::I64 => assert_eq!(i64s(&again), i64s(tensor)),
            _ => assert_eq!(f32s(&again), f32s(tensor)),
        }
    }
    let all = folder.path().join("all.safetensors");
    assert_eq!(write(&all, &named).unwrap(), std::slice::from_ref(&all));
    for (name, tensor, ..) in &outputs {
        let again = read(&all, name).unwrap();
        assert_eq!((again.dtype(), f32s(&again)), (tensor.dtype(), f32s(tensor)), "{name}");
    }
}

#[test]
fn arrays_are_read_in_both_byte_orders_and_in_fortran_order() {
    let whole = |descr: &str, data: &[u8], wanted: &[i64]| {
        let shape = format!("({},)", wanted.len());
        let found = npy::read(&array(&format!("'{descr}'"), "False", &shape, data)).unwrap();
        assert_eq!(i64s(&found), wanted, "{descr}");
    };
    whole("|b1", &[1, 0, 1], &[1, 0, 1]);
    whole("|u1", &[255, 1], &[255, 1]);
    whole("|i1", &[255, 1], &[-1, 1]);
    whole("<i2", &[0xfe, 0xff, 1, 2], &[-2, 513]);
    whole(">i2", &[0xff, 0xfe, 2, 1], &[-2, 513]);
    whole("<u2", &[0xff, 0xff], &[65535]);
    whole(">u4", &[0xff, 0xff, 0xff, 0xfe], &[0xffff_fffe]);
    whole("<i4", &(-7i32).to_le_bytes(), &[-7]);
    whole(">i4", &(-7i32).to_be_bytes(), &[-7]);
    whole(">i8", &i64::MIN.to_be_bytes(), &[i64::MIN]);
    whole("<u8", &(i64::MAX as u64).to_le_bytes(), &[i64::MAX]);
    let real = |descr: &str, data: &[u8]| {
        let found = npy::read(&array(&format!("'{descr}'"), "False", "()", data)).unwrap();
        assert_eq!((found.rank(), f32s(&found)), (0, vec![-1.5]), "{descr}");
    };
    real("<f2", &[0x00, 0xbe]);
    real(">f2", &[0xbe, 0x00]);
    real("<f4", &(-1.5f32).to_le_bytes());
    real(">f4", &(-1.5f32).to_be_bytes());
    real("<f8", &(-1.5f64).to_le_bytes());
    real(">f8", &(-1.5f64).to_be_bytes());
    let columns = npy::read(&array("'|u1'", "True", "(2, 3)", &[1, 4, 2, 5, 3, 6])).unwrap();
    assert_eq!(columns.to_vec2::<u8>().unwrap(), [[1, 2, 3], [4, 5, 6]]);
}

#[test]
fn hostile_arrays_are_refused_with_their_cause() {
    let refused = |bytes: &[u8], cause: &str| {
        let message = npy::read(bytes).unwrap_err();
        assert!(message.contains(cause), "{message}");
    };
    refused(b"", "numpy.save");
    refused(&array("'<f4'", "False", "(2,)", &[0; 8])[..30], "cut short");
    refused(&array("'<f4'", "False", "(2,)", &[0; 7]), "declares the shape [2] of f32, and holds 7 bytes");
    refused(&array("'>f4'", "False", "(2,)", &[0; 7]), "holds 7 bytes");
    refused(&array("'<f4'", "False", "(1152921504606846976, 16)", &[0; 8]), "declares the shape");
    for order in ["True", "False"] {
        refused(&array("'<f4'", order, "(0, 4611686018427387904, 16)", &[]), "declares the shape");
    }
    refused(&array("'<f4'", "False", "(-2,)", &[0; 8]), "not a list of sizes");
    refused(&array("'<f4'", "False", &format!("({})", "1,".repeat(65)), &[0; 4]), "65 dimensions");
    refused(&array("'<f4'", "Maybe", "(2,)", &[0; 8]), "neither True nor False");
    refused(&array("'<c8'", "False", "(1,)", &[0; 8]), "complex numbers of type `<c8`");
    refused(&array("'<U2'", "False", "(1,)", &[0; 8]), "strings");
    refused(&array("'|O'", "False", "(1,)", &[0; 8]), "Python objects");
    refused(&array("[('a', '<i4'), ('b', '<i4')]", "False", "(1,)", &[0; 8]), "records with fields");
    refused(&array("'i4'", "False", "(1,)", &[0; 4]), "without a byte order");
    refused(&array("'|b1'", "False", "(1,)", &[2]), "holds 2 as a truth value");
    refused(&array("'<u8'", "False", "(1,)", &[255; 8]), "18446744073709551615");
}

#[test]
fn a_safetensors_file_is_read_tensor_by_tensor() {
    let folder = tempfile::tempdir().unwrap();
    let seven = 7i64.to_le_bytes();
    let bytes = tensors(&[
        ("ids", "I64", "[1]", &seven),
        ("flags", "BOOL", "[2]", &[1, 0]),
        ("small", "I8", "[2]", &[255, 1]),
        ("short", "I16", "[1]", &[0xfe, 0xff]),
        ("word", "I32", "[1]", &(-3i32).to_le_bytes()),
        ("wide", "U32", "[1]", &u32::MAX.to_le_bytes()),
        ("wider", "U16", "[1]", &u16::MAX.to_le_bytes()),
        ("double", "F64", "[1]", &16_777_217f64.to_le_bytes()),
        ("brain", "BF16", "[1]", &[0xc0, 0xbf]),
        ("complex", "C64", "[1]", &seven),
    ]);
    let path = written(folder.path(), "x.safetensors", &bytes);
    let whole = |name: &str| i64s(&read(&path, name).unwrap());
    assert_eq!(read(&path, "flags").unwrap().to_vec1::<u8>().unwrap(), [1, 0]);
    assert_eq!((whole("ids"), whole("small"), whole("short")), (vec![7], vec![-1, 1], vec![-2]));
    assert_eq!((whole("word"), whole("wide"), whole("wider")), (vec![-3], vec![4_294_967_295], vec![65535]));
    assert_eq!((whole("double"), f32s(&read(&path, "brain").unwrap())), (vec![16_777_217], vec![-1.5]));
    let message = read(&path, "complex").unwrap_err().to_string();
    assert!(message.contains("`complex`") && message.contains("C64") && message.contains("BF16"), "{message}");
    let message = read(&path, "x").unwrap_err().to_string();
    assert!(message.contains("no tensor `x`") && message.contains("flags, ids"), "{message}");
    let empty = tensors(&[("x", "F32", "[0,4611686018427387904,16]", &[])]);
    let message = read(&written(folder.path(), "e.safetensors", &empty), "x").unwrap_err().to_string();
    assert!(message.contains("declares the shape"), "{message}");
    let message = read(&written(folder.path(), "c.safetensors", &bytes[..90]), "x").unwrap_err().to_string();
    assert!(message.contains("c.safetensors: is no safetensors file"), "{message}");
}

#[test]
fn numbers_parse_as_ids_floats_or_truth_values() {
    assert_eq!(parse_numbers("1, 2,3").unwrap().dtype(), DType::I64);
    assert_eq!(parse_numbers("1.5,2").unwrap().dtype(), DType::F32);
    assert_eq!(parse_numbers("true, false").unwrap().to_vec1::<u8>().unwrap(), [1, 0]);
    assert!(parse_numbers("a.npy").is_none() && parse_numbers("true,1").is_none());
}

#[test]
fn lists_take_the_declared_shape_where_they_fill_it() {
    let typed = |dims: &[&str]| {
        let dims = dims.iter().map(|d| d.parse::<Dim>().unwrap());
        TensorType::new(IrType::F32, Shape::new(dims))
    };
    let list = ["1.5"; 24].join(",");
    let shaped = |dims: &[&str]| input("x", &list, &typed(dims)).map(|t| t.dims().to_vec()).map_err(|e| e.to_string());
    assert_eq!(shaped(&["S", "12"]).unwrap(), [2, 12]);
    assert_eq!(shaped(&["2", "S", "3"]).unwrap(), [2, 4, 3]);
    assert_eq!(shaped(&["2", "3", "4"]).unwrap(), [2, 3, 4]);
    assert_eq!(shaped(&["S"]).unwrap(), [24]);
    assert_eq!(shaped(&["B", "S"]).unwrap(), [24]);
    let refused = |dims: &[&str], cause: &str| {
        let message = shaped(dims).unwrap_err();
        assert!(message.starts_with("input `x`: holds 24 numbers"), "{message}");
        assert!(message.contains(cause) && message.contains(".npy"), "{message}");
    };
    refused(&["S", "7"], "f32[S, 7] takes a multiple of 7");
    refused(&["5", "5"], "f32[5, 5] takes 25");
    refused(&["S", "0"], "multiple of 0");
    refused(&["A", "B", "3"], "2 sizes");
}

#[test]
fn an_input_that_is_neither_file_nor_numbers_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let ty = TensorType::f32(Shape::fixed(&[2]));
    let refused = |text: &str| {
        let error = input("mask", text, &ty).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    };
    let missing = refused("abc");
    assert!(missing.contains("input `mask`: `abc` is no file") && missing.contains("true,false"), "{missing}");
    assert!(refused(folder.path().to_str().unwrap()).contains("is no file"));
    let cut = written(folder.path(), "cut.npy", b"\x93NUMPY");
    let message = refused(cut.to_str().unwrap());
    assert!(message.contains("input `mask`") && message.contains("cut.npy"), "{message}");
    let other = written(folder.path(), "x.txt", b"1");
    assert!(refused(other.to_str().unwrap()).contains("is no tensor file"));
}

#[test]
fn outputs_go_where_the_ending_says_or_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let t = Tensor::from_vec(vec![1f32, 2.0], 2, &Device::Cpu).unwrap();
    let one = [("y".to_owned(), t.clone())];
    let two = [("y".to_owned(), t.clone()), ("z".to_owned(), t)];
    assert_eq!(write(&at("one.npy"), &one).unwrap(), [at("one.npy")]);
    assert_eq!(f32s(&read(&at("one.npy"), "y").unwrap()), [1.0, 2.0]);
    let refused = |path: &Path, outputs: &[(String, Tensor)]| {
        let error = write(path, outputs).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(!path.exists());
        error.to_string()
    };
    for (name, outputs) in [("two.npy", &two[..]), ("a.npz", &one), ("a.TXT", &two), ("a.json", &one), ("a.pt", &two)] {
        let message = refused(&at(name), outputs);
        assert!(message.contains("a folder") && message.contains("one .safetensors file"), "{message}");
    }
    let same = [("a/b".to_owned(), one[0].1.clone()), ("a_b".to_owned(), one[0].1.clone())];
    assert!(refused(&at("same"), &same).contains("`a/b` and `a_b`"));
    std::fs::create_dir(at("old.txt")).unwrap();
    assert_eq!(write(&at("old.txt"), &one).unwrap(), [at("old.txt/y.npy")]);
    assert_eq!(write(&at("v1.5"), &two).unwrap(), [at("v1.5/y.npy"), at("v1.5/z.npy")]);
}
