//! Where threads wait for each other, tried in every order of their steps: `models.rs`.
