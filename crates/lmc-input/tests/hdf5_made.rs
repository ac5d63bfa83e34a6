//! HDF5 files made by hand, in the old form and in the new one.

pub const UNDEFINED: u64 = u64::MAX;
pub const DATASPACE: u16 = 1;
pub const LINK_INFO: u16 = 2;
pub const DATATYPE: u16 = 3;
pub const LINK: u16 = 6;
pub const LAYOUT: u16 = 8;
pub const CONTINUATION: u16 = 16;
pub const SYMBOL_TABLE: u16 = 17;

/// A message: its kind and its bytes.
pub type Message = (u16, Vec<u8>);

/// A file to which parts are added at its end.
pub struct File {
    pub bytes: Vec<u8>,
    is_new: bool,
}

impl File {
    /// A file without a root.
    pub fn new(is_new: bool) -> Self {
        let mut bytes = b"\x89HDF\r\n\x1a\n".to_vec();
        bytes.extend(if is_new {
            &[2, 8, 8, 0][..]
        } else {
            &[0, 0, 0, 0, 0, 8, 8, 0, 4, 0, 16, 0]
        });
        bytes.resize(if is_new { 48 } else { 96 }, 0);
        Self { bytes, is_new }
    }

    /// Adds bytes, and gives their address.
    pub fn put(&mut self, bytes: &[u8]) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = self.bytes.len() as u64;
        self.bytes.extend(bytes);
        at
    }

    /// Adds an object with these messages.
    pub fn object(&mut self, messages: &[Message]) -> u64 {
        let block = self.block(messages);
        let len = (block.len() as u32).to_le_bytes();
        if self.is_new {
            return self.put(&[b"OHDR\x02\x02", &len[..], &block, &[0; 4]].concat());
        }
        let count = (messages.len() as u16).to_le_bytes();
        self.put(&[&[1, 0], &count[..], &[1, 0, 0, 0], &len, &[0; 4], &block].concat())
    }

    /// The bytes of messages.
    pub fn block(&self, messages: &[Message]) -> Vec<u8> {
        let message = |(kind, bytes): &Message| {
            let len = (bytes.len() as u16).to_le_bytes();
            let kind = kind.to_le_bytes();
            let new = [&kind[..1], &len, &[0], bytes].concat();
            let old = [&kind[..], &len, &[0; 4], bytes].concat();
            if self.is_new { new } else { old }
        };
        messages.iter().flat_map(message).collect()
    }

    /// Adds a group with these members.
    pub fn group(&mut self, links: &[(&str, u64)]) -> u64 {
        if self.is_new {
            let links: Vec<Message> =
                links.iter().map(|&(name, address)| (LINK, link(name, address))).collect();
            return self.object(&links);
        }
        let mut names = vec![0; 8];
        let mut symbols = [b"SNOD\x01\0", &(links.len() as u16).to_le_bytes()[..]].concat();
        for (name, address) in links {
            symbols.extend((names.len() as u64).to_le_bytes());
            symbols.extend([&address.to_le_bytes()[..], &[0; 24]].concat());
            names.extend([name.as_bytes(), &[0]].concat());
        }
        // Room that nodes always have.
        symbols.resize(symbols.len().max(24), 0);
        let names_at = self.put(&names);
        let fields = [names.len() as u64, 0, names_at].map(u64::to_le_bytes).concat();
        let heap = self.put(&[b"HEAP\0\0\0\0", &fields[..]].concat());
        let symbols = self.put(&symbols);
        let tree = self.tree(&[symbols]);
        self.object(&[(SYMBOL_TABLE, [tree, heap].map(u64::to_le_bytes).concat())])
    }

    /// Adds a node of a tree.
    pub fn tree(&mut self, children: &[u64]) -> u64 {
        let count = (children.len() as u16).to_le_bytes();
        let mut node = [b"TREE\0\0", &count[..], &[0xff; 16]].concat();
        for child in children {
            node.extend([0, *child].map(u64::to_le_bytes).concat());
        }
        node.extend([0; 8]);
        self.put(&node)
    }

    /// The file with a root.
    pub fn with_root(mut self, root: u64) -> Vec<u8> {
        let (end_at, root_at) = if self.is_new { (28, 36) } else { (40, 64) };
        let end = self.bytes.len() as u64;
        self.bytes[end_at..end_at + 8].copy_from_slice(&end.to_le_bytes());
        self.bytes[root_at..root_at + 8].copy_from_slice(&root.to_le_bytes());
        self.bytes
    }
}

/// A link to an address.
pub fn link(name: &str, address: u64) -> Vec<u8> {
    [&[1, 0, name.len() as u8], name.as_bytes(), &address.to_le_bytes()].concat()
}

/// The messages of a dataset of f32 at an address.
pub fn floats(dims: &[u64], address: u64, len: u64) -> Vec<Message> {
    let dims_of: Vec<u8> = dims.iter().flat_map(|dim| dim.to_le_bytes()).collect();
    let datatype = b"\x11\x20\x1f\0\x04\0\0\0\0\0\x20\0\x17\x08\0\x17\x7f\0\0\0\0\0\0\0";
    vec![
        (DATASPACE, [&[1, dims.len() as u8, 0, 0, 0, 0, 0, 0], &dims_of[..]].concat()),
        (DATATYPE, datatype.to_vec()),
        (LAYOUT, [&[3, 1], &address.to_le_bytes()[..], &len.to_le_bytes(), &[0; 6]].concat()),
    ]
}
