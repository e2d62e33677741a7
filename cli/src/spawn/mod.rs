//! `headwater spawn`: many processes of one program on this node, placed, labelled and counted.

pub mod library;
