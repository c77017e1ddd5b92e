//! Label and field selectors.
//!
//! Labels are parsed as the API server parses them, token by token, because its refusals quote the token at
//! which it gave up.

use serde_json::Value;

use super::{
    json::{fields, text},
    kinds::Kind,
    names,
    status::{Answer, bad_request},
};

/// What objects are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<Field>,
}

impl Selector {
    pub(super) fn parse(kind: &Kind, labels: &str, fields: &str) -> Answer<Self> {
        let labels = Parser::new(labels).requirements().map_err(bad_request)?;
        let fields = parse_fields(kind, fields).map_err(bad_request)?;
        Ok(Self { labels, fields })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        self.labels.iter().all(|requirement| requirement.holds(object))
            && self.fields.iter().all(|field| field.holds(object))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    is: Is,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Is {
    Present,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

impl Requirement {
    fn holds(&self, object: &Value) -> bool {
        let label = fields(object, &["metadata", "labels"])
            .and_then(|labels| labels.get(&self.key))
            .and_then(Value::as_str);
        let number = || label.and_then(|label| label.parse::<i64>().ok());
        match &self.is {
            Is::Present => label.is_some(),
            Is::Absent => label.is_none(),
            Is::In(values) => label.is_some_and(|label| values.iter().any(|value| value == label)),
            Is::NotIn(values) => label.is_none_or(|label| values.iter().all(|value| value != label)),
            Is::Above(than) => number().is_some_and(|number| number > *than),
            Is::Below(than) => number().is_some_and(|number| number < *than),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Sign(sign) => sign,
            Self::End => "",
        }
    }
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
}

impl Parser {
    fn new(selector: &str) -> Self {
        Self { tokens: tokens(selector), next: 0 }
    }

    fn peek(&self) -> &Token {
        self.tokens.get(self.next).unwrap_or(&Token::End)
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::Word(_) | Token::Sign("!") => {}
                Token::End => return Ok(requirements),
                other => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.text()
                    ));
                }
            }
            let requirement = self.requirement();
            requirements.push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
            match self.take() {
                Token::End => return Ok(requirements),
                Token::Sign(",") => {}
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
            if !matches!(self.peek(), Token::Word(_) | Token::Sign("!")) {
                return Err(format!("found '{}', expected: identifier after ','", self.peek().text()));
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = *self.peek() == Token::Sign("!");
        if absent {
            self.take();
        }
        let Token::Word(key) = self.take() else {
            self.next -= 1;
            return Err(format!("found '{}', expected: identifier", self.peek().text()));
        };
        if let Some(fault) = names::label_key_fault(&key) {
            return Err(format!("<nil>: Invalid value: \"{key}\": {fault}"));
        }
        if absent {
            return Ok(Requirement { key, is: Is::Absent });
        }
        let operator = match self.peek() {
            Token::End | Token::Sign(",") => return Ok(Requirement { key, is: Is::Present }),
            _ => self.take(),
        };
        let is = match operator.text() {
            "=" | "==" => Is::In(vec![self.value(&key)?]),
            "!=" => Is::NotIn(vec![self.value(&key)?]),
            ">" => Is::Above(self.number(&key)?),
            "<" => Is::Below(self.number(&key)?),
            "in" => Is::In(self.values(&key)?),
            "notin" => Is::NotIn(self.values(&key)?),
            other => return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
        };
        Ok(Requirement { key, is })
    }

    /// Behind a sign nothing at all stands for the empty value.
    fn value(&mut self, key: &str) -> Result<String, String> {
        let value = match self.peek() {
            Token::End | Token::Sign(",") => String::new(),
            Token::Word(_) => self.take().text().to_owned(),
            Token::Sign(sign) => return Err(format!("found '{sign}', expected: identifier")),
        };
        check_value(0, key, &value)?;
        Ok(value)
    }

    fn number(&mut self, key: &str) -> Result<i64, String> {
        let value = match self.take() {
            Token::Word(word) => word,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        let number = value.parse().map_err(|_| {
            format!(
                "values[0]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
            )
        })?;
        check_value(0, key, &value)?;
        Ok(number)
    }

    /// `(a,b)`; a comma without a value beside it stands for the empty value.
    fn values(&mut self, key: &str) -> Result<Vec<String>, String> {
        let open = self.take();
        if open != Token::Sign("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        let mut values = Vec::new();
        let mut expects_value = true;
        loop {
            match self.take() {
                Token::Word(word) if expects_value => {
                    values.push(word);
                    expects_value = false;
                }
                Token::Sign(",") => {
                    if expects_value {
                        values.push(String::new());
                    }
                    expects_value = true;
                }
                Token::Sign(")") => {
                    if expects_value {
                        values.push(String::new());
                    }
                    break;
                }
                other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
            }
        }
        values.sort_unstable();
        values.dedup();
        for (index, value) in values.iter().enumerate() {
            check_value(index, key, value)?;
        }
        Ok(values)
    }
}

fn check_value(index: usize, key: &str, value: &str) -> Result<(), String> {
    match names::label_value_fault(value) {
        Some(fault) => Err(format!("values[{index}][{key}]: Invalid value: \"{value}\": {fault}")),
        None => Ok(()),
    }
}

/// Signs are taken as long as they are known; everything else up to a sign or a blank is a word.
fn tokens(selector: &str) -> Vec<Token> {
    const SIGNS: [&str; 9] = ["==", "!=", "=", "!", "<", ">", "(", ")", ","];
    let mut tokens = Vec::new();
    let mut rest = selector.trim_start();
    while !rest.is_empty() {
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            tokens.push(Token::Sign(sign));
            rest = rest.get(sign.len()..).unwrap_or_default();
        } else {
            let is_end = |c: char| c.is_whitespace() || "=!<>(),".contains(c);
            let (word, behind) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
            tokens.push(Token::Word(word.to_owned()));
            rest = behind;
        }
        rest = rest.trim_start();
    }
    tokens
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    path: Vec<String>,
    value: String,
    equal: bool,
}

impl Field {
    /// What is missing counts as the field's zero value.
    fn holds(&self, object: &Value) -> bool {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let found = match super::json::at(object, &path) {
            Some(Value::Bool(found)) => found.to_string(),
            None if self.path.last().is_some_and(|last| last == "hostNetwork") => "false".to_owned(),
            _ => text(object, &path).to_owned(),
        };
        (found == self.value) == self.equal
    }
}

fn parse_fields(kind: &Kind, selector: &str) -> Result<Vec<Field>, String> {
    let mut parsed = Vec::new();
    for term in split_unescaped(selector) {
        if term.is_empty() {
            continue;
        }
        let (path, value, equal) = ["!=", "==", "="]
            .iter()
            .filter_map(|sign| term.find(sign).map(|at| (at, *sign)))
            .min_by_key(|(at, sign)| (*at, 3 - sign.len()))
            .and_then(|(at, sign)| Some((term.get(..at)?, term.get(at + sign.len()..)?, sign != "!=")))
            .ok_or_else(|| format!("invalid selector: '{selector}'; can't understand '{term}'"))?;
        let value = unescape(value)?;
        if path.is_empty() && value.is_empty() {
            continue;
        }
        check_field(kind, path)?;
        parsed.push(Field { path: path.split('.').map(str::to_owned).collect(), value, equal });
    }
    Ok(parsed)
}

const OF_PODS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "spec.hostNetwork",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.phase",
    "status.podIP",
];

fn check_field(kind: &Kind, path: &str) -> Result<(), String> {
    let known = match kind.plural.as_ref() {
        "pods" => OF_PODS.contains(&path) || path == "status.nominatedNodeName",
        "secrets" => path == "type",
        "namespaces" => path == "status.phase",
        _ => false,
    };
    if known || matches!(path, "metadata.name" | "metadata.namespace") {
        return Ok(());
    }
    // Kinds of the core group convert their fields by functions of their own.
    match kind.group() {
        "" => Err(format!("field label not supported: {path}")),
        _ => Err(format!(
            "\"{path}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )),
    }
}

fn split_unescaped(selector: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut from, mut escaped) = (0, false);
    for (at, c) in selector.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(selector.get(from..at).unwrap_or_default());
                from = at + 1;
            }
            _ => {}
        }
    }
    terms.push(selector.get(from..).unwrap_or_default());
    terms
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::new();
    let mut escaped = false;
    for c in value.chars() {
        match c {
            '\\' | ',' | '=' if escaped => {
                plain.push(c);
                escaped = false;
            }
            _ if escaped => return Err(format!("invalid field selector: invalid escape sequence: \\{c}")),
            '\\' => escaped = true,
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                ));
            }
            _ => plain.push(c),
        }
    }
    Ok(plain)
}
