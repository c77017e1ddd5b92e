//! XDR as libvirt uses it: big-endian, everything a multiple of four bytes.
//!
//! Written by hand, because what comes from a server is not to be trusted: every length is compared with its
//! limit *and* with the bytes that are there before anything is allocated, and no read can pass the end.
//! [`Encode`] and [`Decode`] are public so that procedures this crate does not wrap can be called too, with
//! [`Connection::call`](crate::Connection::call).

use bytes::{BufMut, Bytes, BytesMut};

/// The most bytes that a string may have on the wire; libvirt's own limit.
pub const MAX_STRING: usize = 4 * 1024 * 1024;

/// Why an argument has no form on the wire. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// libvirt would read it up to the NUL, and so act on another name than the one given.
    #[error("a text holds a NUL byte, at which libvirt would cut it off")]
    Nul,
    /// libvirt would end the connection.
    #[error("a text or list of {length} is longer than the protocol's {max}")]
    TooLong {
        /// Bytes or items.
        length: usize,
        /// The most that may be.
        max: usize,
    },
}

/// Why bytes are not the value that the protocol has at this place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end within a value.
    #[error("it ends within a value: {missing} more bytes were expected")]
    Short {
        /// How many bytes the value lacks.
        missing: usize,
    },
    /// There are bytes after the last value.
    #[error("{left} bytes stand after the last value")]
    Trailing {
        /// How many.
        left: usize,
    },
    /// A text or list is longer than the protocol allows.
    #[error("a text or list of {length} is longer than the protocol's {max}")]
    TooLong {
        /// What it claims, in bytes or items.
        length: usize,
        /// The most that may be.
        max: usize,
    },
    /// A value that says whether another follows is neither 0 nor 1.
    #[error("{value} stands where only 0 or 1 may")]
    Choice {
        /// What stood there.
        value: u32,
    },
    /// A text holds a NUL byte.
    #[error("a text holds a NUL byte")]
    Nul,
}

/// What can be written.
pub trait Encode {
    /// Appends the value.
    fn encode(&self, to: &mut Encoder) -> Result<(), EncodeError>;
}

/// What can be read.
pub trait Decode: Sized {
    /// Reads the value, and only it, from the front.
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError>;
}

/// Collects what is written.
#[derive(Debug, Default)]
pub struct Encoder {
    bytes: BytesMut,
}

impl Encoder {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many bytes were written so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// What was written so far.
    pub fn finish(self) -> Bytes {
        self.bytes.freeze()
    }

    /// Bytes as they are, without a length; the protocol's `opaque name[N]` where N divides by four.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.put_slice(bytes);
    }

    /// A list of at most `max` items, with its length.
    pub fn list<T: Encode>(&mut self, items: &[T], max: usize) -> Result<(), EncodeError> {
        let length = self.length(items.len(), max)?;
        self.bytes.put_u32(length);
        items.iter().try_for_each(|item| item.encode(self))
    }

    fn length(&self, length: usize, max: usize) -> Result<u32, EncodeError> {
        u32::try_from(length).ok().filter(|_| length <= max).ok_or(EncodeError::TooLong { length, max })
    }
}

/// Reads from the front of bytes that nobody vouches for.
#[derive(Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Begins at the front.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Reads one value that must take all of `bytes`.
    pub fn whole<T: Decode>(bytes: &'a [u8]) -> Result<T, DecodeError> {
        let mut from = Self::new(bytes);
        let value = T::decode(&mut from)?;
        match from.rest.len() {
            0 => Ok(value),
            left => Err(DecodeError::Trailing { left }),
        }
    }

    /// Bytes as they are, without a length.
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(DecodeError::Short { missing: length.saturating_sub(self.rest.len()) })?;
        self.rest = rest;
        Ok(taken)
    }

    /// A list of at most `max` items.
    pub fn list<T: Decode>(&mut self, max: usize) -> Result<Vec<T>, DecodeError> {
        let length = self.length(max)?;
        // Grows with the items that are really there, not with their claimed number.
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(T::decode(self)?);
        }
        Ok(items)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(DecodeError::Short { missing: N.saturating_sub(self.rest.len()) })?;
        self.rest = rest;
        Ok(*taken)
    }

    fn length(&mut self, max: usize) -> Result<usize, DecodeError> {
        let length = usize::try_from(u32::decode(self)?).unwrap_or(usize::MAX);
        if length <= max { Ok(length) } else { Err(DecodeError::TooLong { length, max }) }
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Encode for $type {
            fn encode(&self, to: &mut Encoder) -> Result<(), EncodeError> {
                to.raw(&self.to_be_bytes());
                Ok(())
            }
        }

        impl Decode for $type {
            fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                from.array().map(Self::from_be_bytes)
            }
        }
    )*};
}

numbers!(u32, i32, u64, i64);

impl Encode for str {
    fn encode(&self, to: &mut Encoder) -> Result<(), EncodeError> {
        if self.as_bytes().contains(&0) {
            return Err(EncodeError::Nul);
        }
        let length = to.length(self.len(), MAX_STRING)?;
        length.encode(to)?;
        to.raw(self.as_bytes());
        to.bytes.put_bytes(0, padding(self.len()));
        Ok(())
    }
}

impl Encode for String {
    fn encode(&self, to: &mut Encoder) -> Result<(), EncodeError> {
        self.as_str().encode(to)
    }
}

/// What is no UTF-8 (a file in a pool may be called anything) is shown with replacement characters, so that
/// one odd name does not hide all others.
impl Decode for String {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let length = from.length(MAX_STRING)?;
        let bytes = from.raw(length)?;
        from.raw(padding(length))?;
        if bytes.contains(&0) {
            return Err(DecodeError::Nul);
        }
        Ok(Self::from_utf8_lossy(bytes).into_owned())
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, to: &mut Encoder) -> Result<(), EncodeError> {
        u32::from(self.is_some()).encode(to)?;
        self.iter().try_for_each(|value| value.encode(to))
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(if bool::decode(from)? { Some(T::decode(from)?) } else { None })
    }
}

impl Encode for bool {
    fn encode(&self, to: &mut Encoder) -> Result<(), EncodeError> {
        u32::from(*self).encode(to)
    }
}

impl Decode for bool {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        match u32::decode(from)? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(DecodeError::Choice { value }),
        }
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    fn encode(&self, to: &mut Encoder) -> Result<(), EncodeError> {
        (**self).encode(to)
    }
}

macro_rules! tuples {
    ($(($($name:ident),*)),*) => {$(
        impl<$($name: Encode),*> Encode for ($($name,)*) {
            #[expect(non_snake_case, reason = "the type's name serves as the value's")]
            fn encode(&self, to: &mut Encoder) -> Result<(), EncodeError> {
                let ($($name,)*) = self;
                $($name.encode(to)?;)*
                Ok(())
            }
        }

        impl<$($name: Decode),*> Decode for ($($name,)*) {
            fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                Ok(($($name::decode(from)?,)*))
            }
        }
    )*};
}

tuples!((A), (A, B), (A, B, C), (A, B, C, D), (A, B, C, D, E));

/// No arguments, or no answer but that it was done.
impl Encode for () {
    fn encode(&self, _: &mut Encoder) -> Result<(), EncodeError> {
        Ok(())
    }
}

impl Decode for () {
    fn decode(_: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(())
    }
}

/// Bytes that fill up to a multiple of four.
fn padding(length: usize) -> usize {
    length.wrapping_neg() & 3
}

/// A structure whose fields stand on the wire in their order.
macro_rules! record {
    ($(#[$about:meta])* pub struct $name:ident { $($(#[$what:meta])* pub $field:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $($(#[$what])* pub $field: $type,)*
        }

        impl $crate::xdr::Encode for $name {
            fn encode(&self, to: &mut $crate::xdr::Encoder) -> Result<(), $crate::xdr::EncodeError> {
                $(self.$field.encode(to)?;)*
                Ok(())
            }
        }

        impl $crate::xdr::Decode for $name {
            fn decode(from: &mut $crate::xdr::Decoder<'_>) -> Result<Self, $crate::xdr::DecodeError> {
                Ok(Self { $($field: $crate::xdr::Decode::decode(from)?,)* })
            }
        }
    };
}

/// A number of which libvirt may know more values than this crate.
macro_rules! code {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$what:meta])* $variant:ident = $number:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$what])* $variant,)*
            /// One that this crate does not know.
            Unknown(i32),
        }

        impl $name {
            /// libvirt's number.
            pub fn number(self) -> i32 {
                match self {
                    $(Self::$variant => $number,)*
                    Self::Unknown(number) => number,
                }
            }
        }

        impl From<i32> for $name {
            fn from(number: i32) -> Self {
                match number {
                    $($number => Self::$variant,)*
                    other => Self::Unknown(other),
                }
            }
        }

        impl $crate::xdr::Encode for $name {
            fn encode(&self, to: &mut $crate::xdr::Encoder) -> Result<(), $crate::xdr::EncodeError> {
                self.number().encode(to)
            }
        }

        impl $crate::xdr::Decode for $name {
            fn decode(from: &mut $crate::xdr::Decoder<'_>) -> Result<Self, $crate::xdr::DecodeError> {
                <i32 as $crate::xdr::Decode>::decode(from).map(Self::from)
            }
        }
    };
}

/// Bits that may be joined with `|`.
macro_rules! flags {
    ($(#[$about:meta])* pub struct $name:ident { $($(#[$what:meta])* $flag:ident = $bits:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(u32);

        impl $name {
            /// None of them: libvirt's default.
            pub const NONE: Self = Self(0);
            $($(#[$what])* pub const $flag: Self = Self($bits);)*

            /// libvirt's number, also for flags that this crate does not name.
            pub const fn from_bits(bits: u32) -> Self {
                Self(bits)
            }

            /// libvirt's number.
            pub const fn bits(self) -> u32 {
                self.0
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl $crate::xdr::Encode for $name {
            fn encode(&self, to: &mut $crate::xdr::Encoder) -> Result<(), $crate::xdr::EncodeError> {
                self.0.encode(to)
            }
        }
    };
}

pub(crate) use {code, flags, record};

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: &(impl Encode + ?Sized)) -> Vec<u8> {
        let mut to = Encoder::new();
        value.encode(&mut to).unwrap();
        to.finish().to_vec()
    }

    #[test]
    fn a_text_is_its_length_its_bytes_and_zeroes_up_to_a_multiple_of_four() {
        assert_eq!(written("abcde"), b"\0\0\0\x05abcde\0\0\0");
        assert_eq!(written("abcd"), b"\0\0\0\x04abcd");
        assert_eq!(written(""), b"\0\0\0\0");
        assert_eq!(Decoder::whole::<String>(b"\0\0\0\x05abcde\0\0\0").unwrap(), "abcde");
    }

    #[test]
    fn a_text_that_libvirt_would_cut_off_is_not_written() {
        let mut to = Encoder::new();
        assert_eq!("ours\0theirs".encode(&mut to), Err(EncodeError::Nul));
        assert_eq!(Decoder::whole::<String>(b"\0\0\0\x02a\0\0\0"), Err(DecodeError::Nul));
    }

    #[test]
    fn a_text_over_the_limit_is_neither_written_nor_read() {
        let long = "x".repeat(MAX_STRING + 1);
        let error = long.encode(&mut Encoder::new()).unwrap_err();
        assert_eq!(error, EncodeError::TooLong { length: MAX_STRING + 1, max: MAX_STRING });
        let claimed = u32::try_from(MAX_STRING + 1).unwrap().to_be_bytes();
        assert_eq!(
            Decoder::whole::<String>(&claimed),
            Err(DecodeError::TooLong { length: MAX_STRING + 1, max: MAX_STRING })
        );
    }

    #[test]
    fn a_length_beyond_the_bytes_that_are_there_is_refused_with_what_is_missing() {
        assert_eq!(Decoder::whole::<String>(b"\0\0\x10\0ab"), Err(DecodeError::Short { missing: 4094 }));
        assert_eq!(Decoder::whole::<u64>(b"\0\0\0\0\0"), Err(DecodeError::Short { missing: 3 }));
    }

    #[test]
    fn a_list_that_claims_millions_of_items_ends_where_its_bytes_end() {
        let mut from = Decoder::new(b"\xff\xff\xff\xf0\0\0\0\x01");
        assert_eq!(from.list::<u32>(usize::MAX), Err(DecodeError::Short { missing: 4 }));
        let mut from = Decoder::new(b"\0\0\0\x05\0\0\0\x01");
        assert_eq!(from.list::<u32>(4), Err(DecodeError::TooLong { length: 5, max: 4 }));
    }

    #[test]
    fn an_optional_value_is_said_by_one_or_zero_and_nothing_else() {
        assert_eq!(written(&Some("a")), b"\0\0\0\x01\0\0\0\x01a\0\0\0");
        assert_eq!(written(&None::<String>), b"\0\0\0\0");
        assert_eq!(Decoder::whole::<Option<u32>>(b"\0\0\0\x02"), Err(DecodeError::Choice { value: 2 }));
    }

    #[test]
    fn bytes_after_the_last_value_are_an_error() {
        assert_eq!(Decoder::whole::<u32>(b"\0\0\0\x01\0"), Err(DecodeError::Trailing { left: 1 }));
    }

    #[test]
    fn a_name_that_is_no_utf_8_does_not_hide_the_others() {
        assert_eq!(Decoder::whole::<String>(b"\0\0\0\x02a\xff\0\0").unwrap(), "a\u{fffd}");
    }
}
