import Glibc

/// Refreshes a response at random shortly before it expires, so that the many processes that use it do not all miss it at once:
/// XFetch, the optimal probabilistic early expiration of Vattani, Chierichetti and Lowenstein (VLDB 2015).
package enum EarlyRefresh {
    /// Whether one use of a fresh response refreshes it: `now − Δ·β·ln(u) ≥ expiry`, so with the probability
    /// `exp(−remaining / (β·Δ))`.
    ///
    /// - Parameters:
    ///   - fetchDuration: How long the last fetch took, in seconds (Δ).
    ///   - factor: How eager it is (β); 0 never refreshes early, 1 is the usual value.
    ///   - random: A random number above 0, at most 1 (u).
    package static func isDue(
        remaining: Double, fetchDuration: Double, factor: Double, random: @autoclosure () -> Double
    ) -> Bool {
        let scale = fetchDuration * factor
        // Beyond 40 times the scale, the probability is below 10^-17.
        guard scale > 0, remaining > 0, remaining <= 40 * scale else { return false }
        return -scale * log(random()) >= remaining
    }
}
