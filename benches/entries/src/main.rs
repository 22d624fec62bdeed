//! Says how many entries it embeds.

cutile_embed::embed!();

fn main() {
    for bundle in cutile_embed::bundles() {
        let pack = bundle.images("sm_90").expect("images").expect("a whole pack");
        println!("{} entries", pack.entries().count());
    }
}
