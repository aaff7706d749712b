//! Compiles Abseil's B-tree for comparison, where its headers are (Debian: libabsl-dev and g++).

fn main() {
    println!("cargo::rerun-if-changed=src/abseil.cc");
    println!("cargo::rustc-check-cfg=cfg(abseil)");
    let mut abseil = cc::Build::new();
    abseil.cpp(true).std("c++17").opt_level(3).flag("-march=native").file("src/abseil.cc");
    if abseil.clone().cargo_warnings(false).try_expand().is_err() {
        println!(
            "cargo::warning=no absl/container/btree_map.h: Abseil's B-tree is left out (Debian: libabsl-dev, g++)"
        );
        return;
    }
    abseil.compile("abseil");
    println!("cargo::rustc-link-lib=absl_throw_delegate");
    println!("cargo::rustc-link-lib=absl_raw_logging_internal");
    println!("cargo::rustc-cfg=abseil");
}
