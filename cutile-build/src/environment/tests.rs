use super::*;

fn env(vars: &[(&str, &str)]) -> Result<BuildEnv, EnvError> {
    BuildEnv::from_lookup(|name| {
        let cargo = [
            ("OUT_DIR", "/out"),
            ("CARGO_MANIFEST_DIR", "/crate"),
            ("CARGO_PKG_NAME", "p"),
            ("CARGO_PKG_VERSION", "1.2.3"),
        ];
        vars.iter().chain(&cargo).find(|(key, _)| *key == name).map(|(_, value)| value.into())
    })
}

#[test]
fn sizes() {
    for (text, bytes) in [
        ("1", Some(1)),
        ("512M", Some(512 << 20)),
        ("4G", Some(4 << 30)),
        ("4 GiB", Some(4 << 30)),
        ("4gb", Some(4 << 30)),
        ("2k", Some(2048)),
        ("1T", Some(1 << 40)),
        ("", None),
        ("0", None),
        ("-1G", None),
        ("+1G", None),
        ("1.5G", None),
        ("G", None),
        ("4X", None),
        ("99999999999T", None),
        ("99999999999999999999", None),
    ] {
        assert_eq!(parse_size(text), bytes, "{text}");
    }
}

#[test]
fn durations() {
    for (text, seconds) in [
        ("90", Some(90)),
        ("90s", Some(90)),
        ("10m", Some(600)),
        ("2 h", Some(7200)),
        ("0", None),
        ("10x", None),
        ("1.5", None),
        ("99999999999999h", None),
        ("9999999999999999", None),
    ] {
        assert_eq!(parse_duration(text), seconds.map(Duration::from_secs), "{text}");
    }
}

#[test]
fn an_error_names_variable_value_and_what_is_valid() {
    for (variable, value, valid) in [
        ("CUTILE_BUILD", "no", "skip"),
        ("CUTILE_BUILD_JOBS", "0", "at least 1"),
        ("CUTILE_BUILD_JOBS", "4x", "at least 1"),
        ("CUTILE_BUILD_MEMORY", "much", "4G"),
        ("CUTILE_BUILD_TIMEOUT", "soon", "10m"),
        ("CUTILE_BUILD_CACHE", "relative/dir", "absolute"),
        ("CUTILE_BUILD_PREBUILT", "use", "ignore"),
        ("CUTILE_BUILD_ALLOW_ENV", "yes", "expected 1"),
    ] {
        let message = env(&[(variable, value)]).unwrap_err().to_string();
        for part in [variable, value, valid] {
            assert!(message.contains(part), "{message}");
        }
    }
}

#[test]
fn a_missing_variable_of_cargo_says_where_this_belongs() {
    let message = BuildEnv::from_lookup(|_| None).unwrap_err().to_string();
    assert!(message.contains("OUT_DIR is not set") && message.contains("build.rs"), "{message}");
}

#[test]
fn an_empty_value_is_an_unset_variable() {
    let empty: Vec<_> = RERUN_IF_ENV_CHANGED
        .into_iter()
        .filter(|name| !FORBIDDEN.contains(name) && *name != "DOCS_RS")
        .chain(["XDG_CACHE_HOME", "HOME", "NUM_JOBS"])
        .map(|name| (name, ""))
        .collect();
    assert_eq!(env(&empty).unwrap(), env(&[]).unwrap());
}

#[test]
fn skipping_has_a_reason() {
    assert_eq!(env(&[]).unwrap().skip_reason(), None);
    let reason = |vars| env(vars).unwrap().skip_reason().unwrap();
    assert!(reason(&[("CUTILE_BUILD", "skip")]).contains("CUTILE_BUILD=skip"));
    assert!(reason(&[("DOCS_RS", "1")]).contains("DOCS_RS"));
}

#[test]
fn s37_a_variable_that_changes_the_code_is_refused_unless_allowed() {
    for name in FORBIDDEN {
        // Upstream looks at some of them by presence only.
        for value in ["1", ""] {
            let error = env(&[(name, value)]).unwrap().refuse_overrides().unwrap_err();
            assert_eq!(error.variable, name);
            assert!(error.to_string().contains("CUTILE_BUILD_ALLOW_ENV=1"), "{error}");
        }
        let allowed = env(&[(name, "1"), ("CUTILE_BUILD_ALLOW_ENV", "1")]).unwrap();
        assert_eq!(allowed.refuse_overrides(), Ok(()));
        assert!(RERUN_IF_ENV_CHANGED.contains(&name));
    }
    assert_eq!(env(&[("CUTILE_JIT_LOG", "1")]).unwrap().refuse_overrides(), Ok(()));
}

#[test]
fn the_debug_level_is_that_of_the_crate_unless_overridden() {
    let level = |vars| env(vars).unwrap().device_debug_level();
    let optimized = |lineinfo| Ok(Codegen::Optimized { level: 3, lineinfo });
    assert_eq!(level(&[("DEBUG", "true")]), Ok(Codegen::Debug));
    assert_eq!(level(&[("DEBUG", "false")]), optimized(false));
    assert_eq!(level(&[("DEBUG", "false"), ("CUDA_RUST_DEBUG", "full")]), Ok(Codegen::Debug));
    assert_eq!(level(&[("DEBUG", "true"), ("CUDA_RUST_DEBUG", "line")]), optimized(true));
    assert_eq!(level(&[("DEBUG", "true"), ("CUDA_RUST_DEBUG", "none")]), optimized(false));
    assert_eq!(level(&[("CUDA_RUST_DEBUG", "max")]).unwrap_err().variable, "CUDA_RUST_DEBUG");
    assert_eq!(level(&[]).unwrap_err().variable, "DEBUG");
}

#[test]
fn targets_are_separated_by_commas_or_spaces() {
    let targets = |text| env(&[("CUTILE_BUILD_TARGETS", text)]).unwrap().targets();
    let names =
        |text| -> Vec<_> { targets(text).unwrap().unwrap().iter().map(Target::as_str).collect() };
    assert_eq!(names("sm_100, sm_90"), ["sm_90", "sm_100"]);
    assert_eq!(names("sm_80 sm_90"), ["sm_80", "sm_90"]);
    assert!(targets("sm_9").unwrap_err().to_string().contains("CUTILE_BUILD_TARGETS"));
    assert!(targets(",").unwrap_err().to_string().contains("no target"));
    assert_eq!(env(&[]).unwrap().targets(), Ok(None));
}

#[test]
fn the_place_of_the_build_cache() {
    let dir = |vars| env(vars).unwrap().cache_dir();
    assert_eq!(dir(&[]), None);
    assert_eq!(dir(&[("HOME", "/h")]), Some("/h/.cache/cutile/build".into()));
    assert_eq!(dir(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]), Some("/x/cutile/build".into()));
    let relative = [("HOME", "/h"), ("XDG_CACHE_HOME", "x")];
    assert_eq!(dir(&relative), Some("/h/.cache/cutile/build".into()));
    assert_eq!(dir(&[("HOME", "/h"), ("CUTILE_BUILD_CACHE", "/c")]), Some("/c".into()));
    assert_eq!(dir(&[("HOME", "/h"), ("CUTILE_BUILD_CACHE", "off")]), None);
}

#[test]
fn jobs_go_by_our_variable_then_cargos() {
    let jobs = |vars| env(vars).unwrap().parallel_jobs();
    assert_eq!(jobs(&[("CUTILE_BUILD_JOBS", "3"), ("NUM_JOBS", "8")]), 3);
    assert_eq!(jobs(&[("NUM_JOBS", "8")]), 8);
    assert!(jobs(&[]) >= 1);
}
