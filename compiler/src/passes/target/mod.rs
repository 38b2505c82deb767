//! Passes that fuse operations for one device.
