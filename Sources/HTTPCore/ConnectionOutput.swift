package import FoundationEssentials
import Synchronization

/// The bytes that go out on a connection after its upgrade (101), between those who send and the engine.
package final class ConnectionOutput: Sendable {
    private struct State {
        var bytes: [UInt8] = []
        /// Up to where the engine has taken the bytes.
        var start = 0
        /// How many bytes the engine has taken in all.
        var taken: Int64 = 0
        var isOpen = false
        var isOver = false
        /// Whether the engine has paused until there are bytes.
        var engineWaits = false
        var wake: (@Sendable () -> Void)?
        var drained: (@Sendable () -> Void)?
        /// ``drained`` is called when no more bytes than this wait; `nil` when nobody waits for that.
        var drainMark: Int?
        var tape: (any MessageTape)?
    }

    /// What the engine gets from ``read(into:)``.
    package enum Piece: Sendable {
        case bytes(Int)
        /// Nothing now.
        case wait
        /// Nothing more.
        case end
    }

    private let state = Mutex(State())
    /// Memory that a burst has taken is given back above this size.
    private static let keptCapacity = 16 << 10

    package init() {}

    // MARK: Those who send

    /// Follows the messages of the connection; `nil` for nobody.
    package var tape: (any MessageTape)? {
        get { state.withLock(\.tape) }
        set { state.withLock { $0.tape = newValue } }
    }

    /// How many bytes wait for the engine.
    package var pendingCount: Int { state.withLock { $0.bytes.count - $0.start } }

    /// How many bytes the engine has taken since the beginning.
    package var takenCount: Int64 { state.withLock(\.taken) }

    /// Adds bytes, which are sent in order, whatever waits already. Returns `false` when the connection is over.
    @discardableResult
    package func write(_ write: (inout [UInt8]) -> Void) -> Bool {
        let (isOpen, wake) = state.withLock { state -> (Bool, (@Sendable () -> Void)?) in
            guard !state.isOver else { return (false, nil) }
            write(&state.bytes)
            return (true, Self.takeWake(&state))
        }
        wake?()
        return isOpen
    }

    /// Calls `body` on the engine's thread after each ``awaitDrain(to:)``, and when the connection is over.
    package func onDrain(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.drained = body } }

    /// Asks for one call of the closure of ``onDrain(_:)`` when no more than `mark` bytes wait. Returns `false` when that
    /// is so already.
    package func awaitDrain(to mark: Int) -> Bool {
        state.withLock { state in
            guard !state.isOver, state.bytes.count - state.start > mark else { return false }
            state.drainMark = mark
            return true
        }
    }

    // MARK: The engine

    /// Begins: `wake` is called from any thread when there are bytes after a ``Piece/wait``.
    package func start(wake: @escaping @Sendable () -> Void) { state.withLock { $0.wake = wake } }

    /// Lets bytes go out, after the server has agreed.
    package func open() {
        let wake = state.withLock { state in
            state.isOpen = true
            return Self.takeWake(&state)
        }
        wake?()
    }

    /// Moves waiting bytes into a buffer.
    package func read(into buffer: UnsafeMutableRawBufferPointer) -> Piece {
        let (piece, drained) = state.withLock { state -> (Piece, (@Sendable () -> Void)?) in
            guard !state.isOver else { return (.end, nil) }
            let count = min(buffer.count, state.bytes.count - state.start)
            guard state.isOpen, count > 0 else {
                state.engineWaits = true
                return (.wait, nil)
            }
            state.bytes.withUnsafeBytes { bytes in
                buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[state.start..<(state.start + count)]))
            }
            state.start += count
            state.taken += Int64(count)
            let left = state.bytes.count - state.start
            if left == 0 {
                state.bytes.removeAll(keepingCapacity: state.bytes.capacity <= Self.keptCapacity)
                state.start = 0
            } else if state.start > left {
                state.bytes.removeFirst(state.start)
                state.start = 0
            }
            guard let mark = state.drainMark, left <= mark else { return (.bytes(count), nil) }
            state.drainMark = nil
            return (.bytes(count), state.drained)
        }
        drained?()
        return piece
    }

    /// Ends the connection: nothing more is sent.
    package func end() {
        let (drained, wake) = state.withLock { state -> ((@Sendable () -> Void)?, (@Sendable () -> Void)?) in
            state.isOver = true
            state.bytes = []
            state.start = 0
            defer { (state.drained, state.wake) = (nil, nil) }
            return (state.drained, state.engineWaits ? state.wake : nil)
        }
        drained?()
        wake?()
    }

    private static func takeWake(_ state: inout State) -> (@Sendable () -> Void)? {
        guard state.engineWaits, state.isOpen, state.bytes.count > state.start else { return nil }
        state.engineWaits = false
        return state.wake
    }
}

/// Follows the messages of a WebSocket, as they are before they become frames: a recording notes them, and a replay compares
/// those that are sent and makes those that arrive.
package protocol MessageTape: Sendable {
    /// Called before each message that is sent, in the order of the wire.
    ///
    /// - Throws: the error for a message that a replay does not expect. It is not sent.
    func send(_ message: TapedMessage) throws(NetworkError)
    /// Called before the close frame of this side.
    func sendClose(_ code: UInt16?, _ reason: String)
    /// Called before each ping of this side.
    func sendPing(_ payload: [UInt8])
    /// Called for each message, and for the close frame, of the server.
    func receive(_ message: TapedMessage)
}

/// A message of a WebSocket, or its end.
package enum TapedMessage: Hashable, Sendable {
    case text(String)
    case data(Data)
    /// The close frame; the code is `nil` when it has none.
    case close(code: UInt16?, reason: String)
}
