/// Finds what somebody meant who mistyped a name.
enum NearestName {
    /// The name with the fewest typing mistakes between, `nil` when all are too far away to be meant.
    static func of(_ text: String, among names: [String]) -> String? {
        let candidates = names.map { (name: $0, distance: distance(text, $0)) }
        guard let best = candidates.min(by: { $0.distance < $1.distance }) else { return nil }
        return best.distance <= max(1, min(3, best.name.filter { $0 != "-" }.count / 3)) ? best.name : nil
    }

    /// How many letters have to be added, left out, replaced or swapped with their neighbour.
    static func distance(_ lhs: String, _ rhs: String) -> Int {
        let left = Array(lhs.lowercased())
        let right = Array(rhs.lowercased())
        var beforeLast: [Int] = []
        var last = Array(0...right.count)
        for row in 0..<left.count {
            var current = [row + 1]
            for column in 0..<right.count {
                var cost = min(
                    last[column] + (left[row] == right[column] ? 0 : 1), last[column + 1] + 1, current[column] + 1)
                if row > 0, column > 0, left[row] == right[column - 1], left[row - 1] == right[column] {
                    cost = min(cost, beforeLast[column - 1] + 1)
                }
                current.append(cost)
            }
            (beforeLast, last) = (last, current)
        }
        return last[right.count]
    }
}
