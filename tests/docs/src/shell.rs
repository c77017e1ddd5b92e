//! A script's commands as words, as far as pages write scripts.
//!
//! No shell: quotes, comments, continued lines, pipes, lists and `$(...)` are read, nothing is expanded.

/// The simple commands of a script, in their order, each with the line that it begins at, counted from 0.
pub fn commands(script: &str) -> Vec<(usize, Vec<String>)> {
    let mut reader = Reader { rest: script.chars().collect(), at: 0, line: 0, found: Vec::new() };
    reader.list(None);
    reader.found.sort_by_key(|(line, _)| *line);
    reader.found
}

struct Reader {
    rest: Vec<char>,
    at: usize,
    line: usize,
    found: Vec<(usize, Vec<String>)>,
}

impl Reader {
    fn next(&mut self) -> Option<char> {
        let next = self.rest.get(self.at).copied();
        self.at += 1;
        self.line += usize::from(next == Some('\n'));
        next
    }

    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    /// Commands up to the end, or to what ends a substitution.
    fn list(&mut self, until: Option<char>) {
        let mut words: Vec<String> = Vec::new();
        let mut word: Option<String> = None;
        let mut begins = self.line;
        while let Some(c) = self.next() {
            match c {
                c if Some(c) == until => break,
                '\\' if self.peek() == Some('\n') => {
                    self.next();
                    words.extend(word.take());
                }
                '\\' => word.get_or_insert_default().extend(self.next()),
                ' ' | '\t' => words.extend(word.take()),
                '#' if word.is_none() => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.next();
                    }
                }
                '\n' | '|' | ';' | '&' => {
                    words.extend(word.take());
                    self.ended(&mut words, begins);
                    begins = self.line;
                }
                '(' if word.is_none() && words.is_empty() => self.list(Some(')')),
                '\'' => {
                    let word = word.get_or_insert_default();
                    while let Some(c) = self.next().filter(|c| *c != '\'') {
                        word.push(c);
                    }
                }
                '"' => {
                    let mut quoted = std::mem::take(word.get_or_insert_default());
                    while let Some(c) = self.next().filter(|c| *c != '"') {
                        self.quoted(c, &mut quoted);
                    }
                    word = Some(quoted);
                }
                '<' | '>' if self.peek() == Some('(') => {
                    self.next();
                    self.list(Some(')'));
                    word = Some("substituted".to_owned());
                }
                // Where it goes to or comes from is no argument.
                '<' | '>' => {
                    words.extend(word.take().filter(|word| word.parse::<u32>().is_err()));
                    while self.peek() == Some(' ') {
                        self.next();
                    }
                    while self.peek().is_some_and(|c| !c.is_whitespace() && c != '|' && c != ';') {
                        self.next();
                    }
                }
                c => {
                    let mut so_far = word.take().unwrap_or_default();
                    self.quoted(c, &mut so_far);
                    word = Some(so_far);
                }
            }
            if words.is_empty() && word.is_none() {
                begins = self.line;
            }
        }
        words.extend(word);
        self.ended(&mut words, begins);
    }

    fn quoted(&mut self, c: char, into: &mut String) {
        if c == '$' && self.peek() == Some('(') {
            self.next();
            self.list(Some(')'));
            into.push_str("substituted");
        } else if c == '\\' {
            into.extend(self.next());
        } else {
            into.push(c);
        }
    }

    /// Without what is set for it, and who runs it.
    fn ended(&mut self, words: &mut Vec<String>, line: usize) {
        let is_set = |word: &str| {
            word.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty()
                    && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
            })
        };
        let passed_over =
            |word: &&String| is_set(word) || matches!(word.as_str(), "sudo" | "export" | "exec" | "do");
        let from = words.iter().take_while(passed_over).count();
        let words: Vec<String> = std::mem::take(words).split_off(from);
        if !words.is_empty() {
            self.found.push((line, words));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(script: &str) -> Vec<Vec<String>> {
        commands(script).into_iter().map(|(_, words)| words).collect()
    }

    #[test]
    fn commands_are_found_wherever_they_stand() {
        assert_eq!(
            read(
                "epo a --b 'c d' \\\n  | kubectl apply -f - && X=1 sudo make t # epo no\n\nepo e \"f $(g h)\" >out 2>&1"
            ),
            [
                vec!["epo", "a", "--b", "c d"],
                vec!["kubectl", "apply", "-f", "-"],
                vec!["make", "t"],
                vec!["g", "h"],
                vec!["epo", "e", "f substituted"],
            ]
        );
        assert_eq!(read("source <(epo completions bash)")[0], ["epo", "completions", "bash"]);
    }

    #[test]
    fn a_command_is_known_by_its_line() {
        let lines: Vec<usize> =
            commands("# a\nb\n\nc \\\n  d\ne").into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 3, 5]);
    }
}
