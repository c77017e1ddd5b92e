//! The files are as ssh-keygen writes them, and as people edit them.

use proptest::prelude::*;

use super::*;

const ED: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
const ED_2: &str = "AAAAC3NzaC1lZDI1NTE5AAAAILIG2T/B0l0gaqj3puu510tu9N1OkQ4znY3LYuEm5zCF";
const EC: &str = "AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBMxBTpMIGvo7CnordO7wP0QQRqpBwUjOLl4eMhfucfE1sjTYyK5wmTl1UqoSDS1PtRVTBdl+0+9pquFb46U7fwg=";

fn key(base64: &str) -> PublicKey {
    PublicKey::from_bytes(&STANDARD.decode(base64).unwrap()).unwrap()
}

fn known(text: &str) -> KnownHosts {
    KnownHosts::parse(text).unwrap()
}

fn line(hosts: &str, base64: &str) -> String {
    let named = key(base64).algorithm();
    format!("{hosts} {} {base64} somebody@somewhere", named.as_str())
}

fn hash(name: &str) -> String {
    let salt = [7; 20];
    let mac = hashed(&salt, name).unwrap().finalize().into_bytes();
    format!("|1|{}|{}", STANDARD.encode(salt), STANDARD.encode(mac))
}

#[test]
fn a_key_that_stands_there_is_trusted_however_the_line_is_set() {
    for text in [
        line("hv1", ED),
        line("other,hv1,10.0.0.1", ED),
        line("HV1", ED),
        line("hv*", ED),
        line("hv?", ED),
        line(&hash("hv1"), ED),
        format!("  \t {}", line("hv1", ED).replace(' ', " \t  ")),
        format!("# a comment\n\n   # another\n{}\r\n", line("hv1", ED)),
        format!("{}\n{}", line("hv1", ED_2), line("hv1", ED)),
        format!("{}\n{}", line("hv1", EC), line("hv1", ED)),
    ] {
        assert_eq!(known(&text).check("hv1", 22, &key(ED)), Ok(()), "{text}");
    }
}

#[test]
fn a_key_that_does_not_stand_there_is_told_by_what_does() {
    let check = |text: &str| known(text).check("hv1", 22, &key(ED)).unwrap_err();
    assert_eq!(check(""), Distrust::Unknown);
    assert_eq!(check(&line("hv2", ED)), Distrust::Unknown);
    assert_eq!(check(&line("*,!hv1", ED)), Distrust::Unknown, "negated");
    assert_eq!(check(&line(&hash("hv2"), ED)), Distrust::Unknown);
    assert_eq!(check(&format!("@cert-authority {}", line("hv1", ED))), Distrust::Unknown);
    assert_eq!(check(&line("hv1", EC)), Distrust::OtherType { line: 1 });
    assert_eq!(check(&format!("#\n\n{}", line("hv1", ED_2))), Distrust::Changed { line: 3 });
    let both = format!("{}\n{}", line("hv1", EC), line("hv1", ED_2));
    assert_eq!(check(&both), Distrust::Changed { line: 2 });
}

#[test]
fn a_revoked_key_is_refused_whatever_else_stands_there() {
    for revoked in ["hv1", "*", &hash("hv1")] {
        let text = format!("{}\n@revoked {}", line("hv1", ED), line(revoked, ED));
        assert_eq!(known(&text).check("hv1", 22, &key(ED)), Err(Distrust::Revoked { line: 2 }));
        let text = format!("{}\n@revoked\t{}", line("[hv1]:2222", ED), line("hv1", ED));
        assert_eq!(known(&text).check("hv1", 2222, &key(ED)), Err(Distrust::Revoked { line: 2 }));
    }
    let other = format!("{}\n@revoked {}", line("hv1", ED), line("hv1", ED_2));
    assert_eq!(known(&other).check("hv1", 22, &key(ED)), Ok(()));
}

#[test]
fn a_port_belongs_to_the_name_and_the_name_alone_will_do() {
    for text in [line("[hv1]:2222", ED), line(&hash("[hv1]:2222"), ED), line("hv1", ED)] {
        assert_eq!(known(&text).check("hv1", 2222, &key(ED)), Ok(()), "{text}");
    }
    let text = line("[hv1]:2222", ED);
    assert_eq!(known(&text).check("hv1", 22, &key(ED)), Err(Distrust::Unknown));
    // Behind another port may be another host, and then the name alone says nothing.
    let text = format!("{}\n{}", line("[hv1]:2222", ED_2), line("hv1", ED));
    assert_eq!(known(&text).check("hv1", 2222, &key(ED)), Err(Distrust::Changed { line: 1 }));
    assert_eq!(known(&line("[fd00::1]:2222", ED)).check("fd00::1", 2222, &key(ED)), Ok(()));
}

#[test]
fn a_host_is_asked_for_keys_of_the_types_that_are_known() {
    let text = format!("{}\n{}\n{}", line("hv1", EC), line("hv2", ED), line("hv1", EC));
    let algorithms = known(&text).algorithms("hv1", 22);
    assert_eq!(algorithms, [key(EC).algorithm()]);
    assert_eq!(known(&text).algorithms("hv3", 22), []);
}

#[test]
fn a_line_that_can_not_be_read_is_told_by_number_and_kind() {
    for (text, kind) in [
        ("hv1", "no key type"),
        ("hv1 ssh-ed25519", "no key"),
        ("@revoked", "no host"),
        ("@trusted hv1 ssh-ed25519 AAAA", "an unknown marker"),
        ("hv1 ssh-ed25519 secret!", "a key that is not base64"),
        ("hv1 ssh-ed25519 AAAA", "a key that can't be read"),
        (&format!("hv1 ssh-rsa {ED}"), "a key of another type than the line says"),
        ("|2|AAAA|AAAA ssh-ed25519 AAAA", "a hashed name of an unknown form"),
        ("|1|!|AAAA ssh-ed25519 AAAA", "a hashed name that is not base64"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk=", "a key that is not base64"),
    ] {
        let malformed = KnownHosts::parse(&format!("# first\n{text}")).err().unwrap();
        assert_eq!(malformed, Malformed { line: 2, kind });
        assert!(!malformed.to_string().contains("secret"));
    }
}

#[test]
fn lines_of_keys_that_are_not_spoken_here_are_passed_over() {
    let text = format!("hv1 1024 35 1234567890\nhv1 ssh-future@example AAAA\n{}", line("hv1", ED));
    assert_eq!(known(&text).check("hv1", 22, &key(ED)), Ok(()));
}

proptest! {
    #[test]
    fn no_text_panics_and_none_of_it_is_told(text in "[ -~\t\n|@*!,]{0,200}") {
        match KnownHosts::parse(&text) {
            Ok(known) => {
                let _ = known.check("hv1", 22, &key(ED));
            }
            Err(malformed) => {
                let told = malformed.to_string();
                prop_assert!(told.len() < 64 && malformed.line <= text.lines().count(), "{}", told);
            }
        }
    }

    #[test]
    fn a_hashed_name_fits_itself_alone(name in "[a-z0-9.]{1,30}", other in "[a-z0-9.]{1,30}") {
        let text = line(&hash(&name), ED);
        prop_assert_eq!(known(&text).check(&name, 22, &key(ED)), Ok(()));
        prop_assert_eq!(known(&text).check(&other, 22, &key(ED)).is_ok(), name == other);
    }

    #[test]
    fn a_star_fits_what_lies_between(before in "[a-z.]{0,8}", between in "[a-z.]{0,8}", after in "[a-z.]{0,8}") {
        let (pattern, name) = (format!("{before}*{after}"), format!("{before}{between}{after}"));
        prop_assert!(matches(pattern.as_bytes(), name.as_bytes()));
        let longer = format!("{}x", name);
        prop_assert_eq!(matches(pattern.as_bytes(), longer.as_bytes()), after.is_empty() || longer.ends_with(&after));
    }
}
