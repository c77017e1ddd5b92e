//! A component's outline: the names it imports and exports, and how many instances it makes.
//!
//! wasmtime counts instances only while it makes them, and says so in words alone. Counted beforehand,
//! "too many" is an error of its own, and a nest of components that double at every level is refused before
//! a compiler unfolds it.

use wasmparser::{
    BinaryReaderError, ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind,
    ComponentTypeRef, Encoding, Instance, Parser, Payload,
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    pub(crate) imports: Vec<String>,
    pub(crate) exports: Vec<String>,
    pub(crate) made: Made,
}

/// What instantiating a component makes, what is inside it included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) core: u64,
    pub(crate) components: u64,
}

impl Made {
    fn add(&mut self, other: Self) {
        self.core = self.core.saturating_add(other.core);
        self.components = self.components.saturating_add(other.components);
    }
}

/// A component that is being read: its index space of components, and what it makes.
#[derive(Default)]
struct Frame {
    components: Vec<Made>,
    made: Made,
}

impl Frame {
    /// What is not understood counts as nothing: the store's own limit still holds.
    fn component(&self, index: u32) -> Made {
        usize::try_from(index).ok().and_then(|index| self.components.get(index)).copied().unwrap_or_default()
    }
}

impl Outline {
    /// Reads bytes that are valid already.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, BinaryReaderError> {
        let mut outline = Self::default();
        // The component that is read stands last, after those that it stands in; none is a core module.
        let mut frames: Vec<Option<Frame>> = Vec::new();
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::Version { encoding, .. } => {
                    frames.push((encoding == Encoding::Component).then(Frame::default));
                }
                Payload::End(_) => {
                    let Some(Some(ended)) = frames.pop() else { continue };
                    match frames.last_mut() {
                        Some(Some(parent)) => parent.components.push(ended.made),
                        _ => outline.made = ended.made,
                    }
                }
                payload => outline.section(payload, &mut frames)?,
            }
        }
        Ok(outline)
    }

    fn section(
        &mut self,
        payload: Payload<'_>,
        frames: &mut [Option<Frame>],
    ) -> Result<(), BinaryReaderError> {
        let Some((Some(frame), outer)) = frames.split_last_mut() else { return Ok(()) };
        let root = outer.is_empty();
        match payload {
            Payload::ComponentImportSection(imports) => {
                for import in imports {
                    let import = import?;
                    if let ComponentTypeRef::Component(_) = import.ty {
                        frame.components.push(Made::default());
                    }
                    if root {
                        self.imports.push(import.name.name.to_owned());
                    }
                }
            }
            Payload::ComponentExportSection(exports) => {
                for export in exports {
                    let export = export?;
                    // An export is one more item of its kind.
                    if export.kind == ComponentExternalKind::Component {
                        frame.components.push(frame.component(export.index));
                    }
                    if root {
                        self.exports.push(export.name.name.to_owned());
                    }
                }
            }
            Payload::InstanceSection(instances) => {
                for instance in instances {
                    if let Instance::Instantiate { .. } = instance? {
                        frame.made.add(Made { core: 1, components: 0 });
                    }
                }
            }
            Payload::ComponentInstanceSection(instances) => {
                for instance in instances {
                    if let ComponentInstance::Instantiate { component_index, .. } = instance? {
                        let inside = frame.component(component_index);
                        frame.made.add(inside);
                        frame.made.add(Made { core: 0, components: 1 });
                    }
                }
            }
            Payload::ComponentAliasSection(aliases) => {
                for alias in aliases {
                    match alias? {
                        ComponentAlias::InstanceExport { kind: ComponentExternalKind::Component, .. } => {
                            frame.components.push(Made::default());
                        }
                        ComponentAlias::Outer { kind: ComponentOuterAliasKind::Component, count, index } => {
                            let made = match usize::try_from(count) {
                                Ok(0) => frame.component(index),
                                Ok(count) => {
                                    let from = outer.len().checked_sub(count).and_then(|at| outer.get(at));
                                    from.and_then(Option::as_ref)
                                        .map_or(Made::default(), |frame| frame.component(index))
                                }
                                Err(_) => Made::default(),
                            };
                            frame.components.push(made);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(wat: &str) -> Made {
        Outline::read(&wat::parse_str(wat).unwrap()).unwrap().made
    }

    #[test]
    fn instances_inside_components_count_as_often_as_they_are_made() {
        let nested = r#"
            (component
                (core module $m)
                (component $twice
                    (core module $n)
                    (core instance (instantiate $n))
                    (core instance (instantiate $n)))
                (component $four
                    (alias outer 1 $twice (component $inner))
                    (instance (instantiate $inner))
                    (instance (instantiate $inner)))
                (core instance (instantiate $m))
                (instance (instantiate $four))
                (instance (instantiate $twice)))"#;
        assert_eq!(made(nested), Made { core: 1 + 4 + 2, components: 4 });
    }

    #[test]
    fn a_nest_that_doubles_at_every_level_is_counted_without_being_unfolded() {
        let mut nest = String::from("(component (component $c0)");
        for level in 1..70 {
            let below = level - 1;
            nest += &format!(
                "(component $c{level} (alias outer 1 $c{below} (component $x))
                    (instance (instantiate $x)) (instance (instantiate $x)))"
            );
        }
        nest += "(instance (instantiate $c69)))";
        assert_eq!(made(&nest).components, u64::MAX);
    }
}
