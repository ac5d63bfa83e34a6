//! Files and directories: only listed files are read, and only complete files appear.

pub(crate) mod acl;
pub(crate) mod beside;
pub(crate) mod clear;
pub(crate) mod descend;
pub(crate) mod folder;
pub(crate) mod leftover;
pub(crate) mod names;
pub(crate) mod publish;
pub(crate) mod reach;
pub(crate) mod remove;
pub(crate) mod sandbox;
pub(crate) mod tree;
