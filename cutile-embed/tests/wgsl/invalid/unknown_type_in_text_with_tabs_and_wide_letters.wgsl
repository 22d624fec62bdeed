//! says: no definition in scope for identifier
fn größe(λ: f32) -> f32 {
	var 値: float3 = λ;
	return 値;
}
