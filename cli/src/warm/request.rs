//! A proxy's request: fields that each begin with their length. Decoding is total, and needs only the standard library.

/// Limit of a request, in bytes: twice exec's limit of arguments and environment.
pub const BYTES_MAX: usize = 16 << 20;
/// Limit of an interpreter's arguments.
const ARGUMENTS_MAX: usize = 1024;

/// A request for a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The digest of the proxy's sources.
    pub build: Vec<u8>,
    /// The file that would be executed.
    pub program: Vec<u8>,
    /// An interpreter's name and options, and its imports.
    pub interpreter: Option<(Vec<Vec<u8>>, Vec<u8>)>,
    /// The generation of the node's copies: later programs may see other files.
    pub generation: u64,
    /// A digest of properties that a forked process can't change.
    pub attributes: u64,
    /// A digest of the variables at which programs look before `main`.
    pub variables: u64,
    /// Whether a process from a zygote has started it, and not the launcher.
    pub is_child: bool,
    /// The control groups, as `/proc/self/cgroup` has them.
    pub groups: Vec<u8>,
    /// The description for the spawning library.
    pub description: Vec<u8>,
}

impl Request {
    /// Encodes the request.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.description.len() + 4096);
        let mut put = |field: &[u8]| {
            bytes.extend((field.len() as u64).to_le_bytes());
            bytes.extend(field);
        };
        put(&self.build);
        put(&self.program);
        let (arguments, imports) =
            self.interpreter.as_ref().map_or((&[][..], None), |(arguments, imports)| (arguments, Some(imports)));
        put(&(arguments.len() as u64).to_le_bytes());
        arguments.iter().for_each(|argument| put(argument));
        put(imports.map_or(&[], |imports| imports));
        for number in [self.generation, self.attributes, self.variables, u64::from(self.is_child)] {
            put(&number.to_le_bytes());
        }
        put(&self.groups);
        put(&self.description);
        bytes
    }

    /// Decodes a request; `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Request> {
        let mut rest = Some(bytes).filter(|bytes| bytes.len() <= BYTES_MAX)?;
        let (build, program) = (take(&mut rest)?.to_vec(), take(&mut rest)?.to_vec());
        let count = usize::try_from(number(&mut rest)?).ok().filter(|&count| count <= ARGUMENTS_MAX)?;
        let arguments = (0..count).map(|_| take(&mut rest).map(<[u8]>::to_vec)).collect::<Option<Vec<_>>>()?;
        let imports = take(&mut rest)?.to_vec();
        if arguments.is_empty() && !imports.is_empty() {
            return None;
        }
        let (generation, attributes, variables) = (number(&mut rest)?, number(&mut rest)?, number(&mut rest)?);
        let is_child = match number(&mut rest)? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let (groups, description) = (take(&mut rest)?.to_vec(), take(&mut rest)?.to_vec());
        let interpreter = (!arguments.is_empty()).then_some((arguments, imports));
        rest.is_empty().then_some(Request {
            build,
            program,
            interpreter,
            generation,
            attributes,
            variables,
            is_child,
            groups,
            description,
        })
    }
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, behind) = rest.split_first_chunk::<8>()?;
    let (field, behind) = behind.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    *rest = behind;
    Some(field)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(take(rest)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_decoded_and_nothing_else() {
        let plain = Request {
            build: b"0123".into(),
            program: b"/usr/bin/app".into(),
            generation: 1,
            attributes: u64::MAX,
            variables: 7,
            is_child: true,
            groups: b"0::/a\n".into(),
            description: vec![0; 300],
            ..Request::default()
        };
        let arguments = vec![b"python3".to_vec(), b"-u".to_vec()];
        let python = Request { interpreter: Some((arguments, b"numpy,scipy".into())), ..plain.clone() };
        for request in [plain, python] {
            let bytes = request.encode();
            assert_eq!(Request::decode(&bytes), Some(request));
            assert!((0..bytes.len()).all(|cut| Request::decode(&bytes[..cut]).is_none()));
            assert_eq!(Request::decode(&[bytes, vec![0]].concat()), None);
        }
        assert_eq!(Request::decode(&[0xff; 64]), None);
        let child = Request { is_child: true, ..Request::default() }.encode();
        let at = child.iter().rposition(|&byte| byte == 1).expect("the flag");
        let neither = [&child[..at], &[2], &child[at + 1..]].concat();
        assert_eq!(Request::decode(&neither), None);
    }

    #[test]
    fn fuzzing_begins_with_what_is_read() {
        for seed in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/warm_request")).unwrap() {
            let (path, bytes) = seed.map(|seed| (seed.path(), std::fs::read(seed.path()).unwrap())).unwrap();
            assert!(Request::decode(&bytes).is_some(), "{}", path.display());
        }
    }
}
