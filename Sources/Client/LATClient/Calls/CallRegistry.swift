import HTTPCore
import Synchronization

/// The running calls of a manager: a linked list whose links are stored in the calls.
final class CallRegistry: Sendable {
    private struct State {
        var first: Call?
        var count = 0
        /// Set once the registry takes no new calls, and settled when the last one has left.
        var drained: SharedResult<Void>?
    }

    private let state = Mutex(State())

    /// Adds a call.
    ///
    /// - Parameter isInside: whether a running call has started it.
    /// - Returns: `false` for another call that came after ``close()``, which has to end at once, and is not waited for.
    func enter(_ call: Call, isInside: @autoclosure () -> Bool) -> Bool {
        state.withLock { state in
            call.next = state.first
            state.first?.previous = call
            state.first = call
            guard state.drained == nil || isInside() else {
                call.cameLate = true
                return false
            }
            state.count += 1
            return true
        }
    }

    /// Takes no new calls from now on.
    ///
    /// - Returns: what is settled when the last running call has left.
    func close() -> SharedResult<Void> {
        let (drained, isEmpty) = state.withLock { state in
            let drained = state.drained ?? SharedResult()
            state.drained = drained
            return (drained, state.count == 0)
        }
        if isEmpty { drained.settle(.success(())) }
        return drained
    }

    /// Removes a call that has ended.
    func leave(_ call: Call) {
        let drained = state.withLock { state -> SharedResult<Void>? in
            call.next?.previous = call.previous
            if let previous = call.previous { previous.next = call.next } else { state.first = call.next }
            call.next = nil
            call.previous = nil
            guard !call.cameLate else { return nil }
            state.count -= 1
            return state.count == 0 ? state.drained : nil
        }
        drained?.settle(.success(()))
    }

    /// Whether ``close()`` was called.
    var isClosed: Bool { state.withLock { $0.drained != nil } }

    /// The number of calls that a selection matches.
    func count(_ kind: RequestSelection.Kind) -> Int {
        kind == .all ? state.withLock(\.count) : matches(kind).count
    }

    /// Cancels the running calls that a selection matches. Returns their number.
    func cancel(_ kind: RequestSelection.Kind) -> Int {
        let matches = matches(kind)
        for call in matches { call.cancel() }
        return matches.count
    }

    /// Ends all calls as those of a manager that was shut down.
    func refuseAll() { for call in matches(.all) { call.refuse() } }

    /// Copies the list under the lock and filters the copy outside it.
    private func matches(_ kind: RequestSelection.Kind) -> [Call] {
        let all = state.withLock { state in state.first.map { Array(sequence(first: $0, next: \.next)) } ?? [] }
        return all.filter { $0.matches(kind) && !$0.isCancelled }
    }
}

extension Call {
    fileprivate func matches(_ kind: RequestSelection.Kind) -> Bool {
        switch kind {
        case .all: true
        case .keys(let keys): keys.contains(key)
        case .tag(let tag): request.tag == tag
        // The addresses lack the call's own parameters.
        case .url(let url): ([request.url] + details.addresses).contains { Self.isSame($0, as: url) }
        case .entityType(let type): details.entity?.type == type
        case .entity(let entity): details.entity == entity
        }
    }

    private static func isSame(_ address: String, as wanted: String) -> Bool {
        address == wanted
            || !wanted.utf8.contains(UInt8(ascii: "?")) && address.utf8.starts(with: "\(wanted)?".utf8)
    }
}

/// A selection of a manager's running calls.
///
/// ```swift
/// manager.cancelRequests(.tag("feed"))
/// manager.cancelRequests(.url("/users"))              // with or without a query
/// manager.cancelRequests(.entity(FetchUser.self))
/// manager.cancelRequests(.entity(FetchUser(id: 42)))
/// manager.cancelRequests(.keys(tasks.map(\.key)))
/// manager.cancelRequests(.all)
/// ```
public struct RequestSelection: Sendable {
    enum Kind: Hashable, Sendable {
        case all
        case keys(Set<String>)
        case tag(String)
        case url(String)
        case entityType(ObjectIdentifier)
        case entity(EntityReference)
    }

    let kind: Kind

    init(_ kind: Kind) { self.kind = kind }

    /// Every call.
    public static let all = RequestSelection(.all)

    /// The call with this key: ``RequestTask/key``, ``UploadTask/key``, ``Download/key``, ``ObservedCall/key``.
    public static func key(_ key: String) -> RequestSelection { RequestSelection(.keys([key])) }

    /// The calls with one of these keys.
    public static func keys(_ keys: some Sequence<String>) -> RequestSelection { RequestSelection(.keys(Set(keys))) }

    /// The calls with this tag.
    public static func tag(_ tag: String) -> RequestSelection { RequestSelection(.tag(tag)) }

    /// The calls to this address: a path below the base URL, or an absolute URL. Without a query it also matches the same
    /// address with any query. The comparison is case-sensitive.
    public static func url(_ url: some URLConvertible) -> RequestSelection {
        RequestSelection(.url(url.urlText))
    }
}

/// Identifies the entity that a call belongs to, for selections.
struct EntityReference: Hashable, Sendable {
    let type: ObjectIdentifier
    let parameters: EncodedMembers
    let properties: EncodedMembers
}

extension NetworkError {
    /// Whether the error says nothing about server or network, because the call was cancelled or missed its deadline.
    var isEndOfCall: Bool { kind == .cancelled || kind == .timeout(.deadline) }

    /// Turns any error that ends a call into a `NetworkError`.
    package init(ending error: any Error, _ request: HTTPRequest?) {
        if let error = error as? NetworkError {
            self = request.map(error.attaching) ?? error
        } else if error is CancellationError {
            self = NetworkError(.cancelled, message: "the request was cancelled", request: request, underlying: error)
        } else {
            let text = Redactor.scrubbed("\(error)", of: request)
            self = NetworkError(
                .provider, message: "an interceptor or transport of the app threw: \(text)",
                request: request, underlying: error)
        }
    }
}

extension Error {
    /// Whether this ends the current task, and is not a cancellation that code of the app throws for reasons of its own.
    var endsTask: Bool { self is CancellationError && Task.isCancelled }
}
