//! The house from outside: a gateway in the same process, a client that sees every byte, backends named by what they do.
