internal import CurlTransport
internal import Platform
internal import Synchronization

/// Sends commands on their callers' threads while the connection is idle, so that the engine's thread wakes up only for the
/// reply. While a reply is expected, commands gather, and the engine's thread sends them together.
final class DirectSender: Sendable {
    enum Outcome {
        /// The engine's thread must send it.
        case notSent
        case sent
        /// It was sent, and the engine's thread must be woken: for its deadline, or for bytes that the kernel did not take.
        case sentAndNeedsWake
    }

    private struct State {
        /// Sends bytes to the server; `nil` unless the connection is idle.
        var outlet: ByteOutlet?
        /// What was sent and not yet taken by the engine's thread.
        var exchange: RedisExchange?
        /// The engine's thread next ends expired exchanges at this time or earlier.
        var alarm = MonotonicTime.distantFuture
    }

    private let state = Mutex(State())

    /// Sends an exchange if the connection is idle. After that it is busy.
    func send(_ exchange: RedisExchange) -> Outcome {
        guard let outlet = state.withLock({ $0.outlet }) else { return .notSent }
        var isUrgent = false
        // The state is not locked during the system call, so that the engine's thread can take the reply before it returns.
        let isWhole = exchange.send(on: outlet) {
            state.withLock { state in
                guard state.outlet === outlet else { return false }
                state.outlet = nil
                state.exchange = exchange
                isUrgent = exchange.deadline < state.alarm
                if isUrgent { state.alarm = exchange.deadline }
                return true
            }
        }
        guard let isWhole else { return .notSent }
        return isUrgent || !isWhole ? .sentAndNeedsWake : .sent
    }

    // MARK: The engine's thread

    /// The connection is idle.
    func offer(_ outlet: ByteOutlet) { state.withLock { $0.outlet = outlet } }

    /// Returns what was sent or is being sent, if anything. From then on, callers send nothing new.
    func takeBack() -> RedisExchange? {
        state.withLock { state in
            state.outlet = nil
            defer { state.exchange = nil }
            return state.exchange
        }
    }

    /// Notes when the engine's thread next ends expired exchanges.
    ///
    /// - Returns: When it must do so; earlier if something was sent meanwhile whose deadline is earlier.
    func setAlarm(_ time: MonotonicTime) -> MonotonicTime {
        state.withLock { state in
            state.alarm = min(time, state.exchange?.deadline ?? .distantFuture)
            return state.alarm
        }
    }
}
