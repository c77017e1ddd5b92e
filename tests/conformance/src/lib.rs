//! The provider contract as a test suite: any component, any backend, simulated or real.
