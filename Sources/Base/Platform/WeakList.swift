/// Objects that are not kept alive, each once.
package struct WeakList<Object: AnyObject> {
    private struct Weak {
        weak var object: Object?
    }

    private var list: [Weak] = []

    package init() {}

    /// Those that still live, in the order in which they were added.
    package var objects: [Object] { list.compactMap(\.object) }

    /// Adds an object, and forgets those that are gone.
    package mutating func add(_ object: Object) {
        list.removeAll { $0.object == nil || $0.object === object }
        list.append(Weak(object: object))
    }
}
