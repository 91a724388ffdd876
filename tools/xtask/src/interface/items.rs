//! Items as users see them: without bodies, documentation, and what is private.

use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, Signature, TraitItem, Type, Visibility, parse_quote};

/// The name of an item that has one.
pub(super) fn name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Mod(item) => &item.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

pub(super) const fn visibility(item: &Item) -> Option<&Visibility> {
    match item {
        Item::Const(item) => Some(&item.vis),
        Item::Enum(item) => Some(&item.vis),
        Item::Fn(item) => Some(&item.vis),
        Item::Mod(item) => Some(&item.vis),
        Item::Static(item) => Some(&item.vis),
        Item::Struct(item) => Some(&item.vis),
        Item::Trait(item) => Some(&item.vis),
        Item::Type(item) => Some(&item.vis),
        Item::Union(item) => Some(&item.vis),
        Item::Use(item) => Some(&item.vis),
        _ => None,
    }
}

pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether an item is in builds of tests only.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test" || condition == "doctest")
    })
}

/// Whether documentation leaves an item out, so that it is nobody's interface.
pub(super) fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("doc") && attribute.parse_args::<syn::Ident>().is_ok_and(|word| word == "hidden")
    })
}

/// What an item shows; `None` for what users can't name.
pub(super) fn shown(item: &Item) -> Option<Item> {
    let mut item = item.clone();
    match &mut item {
        Item::Const(item) => {
            trim(&mut item.attrs);
            item.expr = parse_quote!(_);
        }
        Item::Static(item) => {
            trim(&mut item.attrs);
            item.expr = parse_quote!(_);
        }
        Item::Enum(item) => {
            trim(&mut item.attrs);
            for variant in &mut item.variants {
                trim(&mut variant.attrs);
                variant.fields.iter_mut().for_each(|field| trim(&mut field.attrs));
            }
        }
        Item::Fn(item) => {
            trim(&mut item.attrs);
            plain(&mut item.sig);
            item.block = parse_quote!({});
        }
        Item::Struct(item) => {
            trim(&mut item.attrs);
            public_fields(&mut item.fields);
        }
        Item::Trait(item) => {
            trim(&mut item.attrs);
            item.items.retain(|item| !is_hidden(of_trait(item)));
            item.items.iter_mut().for_each(without_default);
        }
        Item::Type(item) => trim(&mut item.attrs),
        Item::Macro(item) => item.mac.tokens = TokenStream::new(),
        _ => return None,
    }
    Some(item)
}

/// The public functions and constants of an inherent `impl`; `None` if it has none.
pub(super) fn inherent(item: &ItemImpl) -> Option<ItemImpl> {
    let mut item = item.clone();
    trim(&mut item.attrs);
    item.items.retain(|item| match item {
        ImplItem::Fn(item) => matches!(item.vis, Visibility::Public(_)) && !is_hidden(&item.attrs),
        ImplItem::Const(item) => matches!(item.vis, Visibility::Public(_)) && !is_hidden(&item.attrs),
        _ => false,
    });
    for item in &mut item.items {
        match item {
            ImplItem::Fn(item) => {
                trim(&mut item.attrs);
                plain(&mut item.sig);
                item.block = parse_quote!({});
            }
            ImplItem::Const(item) => {
                trim(&mut item.attrs);
                item.expr = parse_quote!(_);
            }
            _ => {}
        }
    }
    (!item.items.is_empty()).then_some(item)
}

/// The name of the type that an `impl` is for.
pub(super) fn subject(item: &ItemImpl) -> Option<String> {
    match &*item.self_ty {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}

/// Keeps the attributes that users see.
fn trim(attributes: &mut Vec<Attribute>) {
    let seen = ["derive", "non_exhaustive", "repr", "cfg", "must_use", "deprecated"];
    attributes.retain(|attribute| seen.iter().any(|name| attribute.path().is_ident(name)));
    for attribute in attributes {
        // Its reason is documentation.
        if attribute.path().is_ident("must_use") {
            *attribute = parse_quote!(#[must_use]);
        }
    }
}

/// Parameters by plain names: `mut` is the body's business.
fn plain(signature: &mut Signature) {
    for input in &mut signature.inputs {
        match input {
            syn::FnArg::Receiver(receiver) => receiver.mutability = None,
            syn::FnArg::Typed(input) => match &mut *input.pat {
                syn::Pat::Ident(name) => name.mutability = None,
                pattern => *pattern = parse_quote!(_),
            },
        }
    }
}

fn public_fields(fields: &mut Fields) {
    let is_public = |field: &syn::Field| matches!(field.vis, Visibility::Public(_)) && !is_hidden(&field.attrs);
    match fields {
        Fields::Named(named) => {
            named.named = std::mem::take(&mut named.named).into_iter().filter(is_public).collect();
            named.named.iter_mut().for_each(|field| trim(&mut field.attrs));
        }
        // The others are counted, since they can be matched by place.
        Fields::Unnamed(unnamed) => {
            for field in &mut unnamed.unnamed {
                trim(&mut field.attrs);
                if !is_public(field) {
                    field.ty = parse_quote!(_);
                }
            }
        }
        Fields::Unit => {}
    }
}

fn of_trait(item: &TraitItem) -> &[Attribute] {
    match item {
        TraitItem::Const(item) => &item.attrs,
        TraitItem::Fn(item) => &item.attrs,
        TraitItem::Type(item) => &item.attrs,
        _ => &[],
    }
}

fn without_default(item: &mut TraitItem) {
    match item {
        TraitItem::Const(item) => trim(&mut item.attrs),
        TraitItem::Fn(item) => {
            trim(&mut item.attrs);
            plain(&mut item.sig);
            // Whether there is a default is seen.
            if item.default.is_some() {
                item.default = Some(parse_quote!({}));
            }
        }
        TraitItem::Type(item) => trim(&mut item.attrs),
        _ => {}
    }
}

/// What items of one module are sorted by.
pub(super) fn order(item: &Item) -> (String, String) {
    let of_impl = |item: &ItemImpl| subject(item).unwrap_or_default();
    let named = match item {
        Item::Impl(item) => of_impl(item),
        Item::Use(item) => item.tree.to_token_stream().to_string(),
        _ => name(item).unwrap_or_default(),
    };
    let kind = if matches!(item, Item::Impl(_)) { "impl" } else { "" };
    (named, format!("{kind} {}", item.to_token_stream()))
}
