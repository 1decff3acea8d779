import CLibcurl
import Synchronization

/// How other threads talk to the engine's: a locked list of commands, and one
/// write to an eventfd when the engine sleeps. A burst of submissions wakes it
/// once.
final class Mailbox<Command: Sendable>: Sendable {
    private struct State {
        var commands: [Command] = []
        var isSleeping = false
        var isClosed = false
    }

    /// Polled by the engine, edge-triggered, so that it need not be read.
    let descriptor: CInt
    private let state = Mutex(State())

    /// `nil` when the process has no descriptor left.
    init?() {
        descriptor = eventfd(0, CInt(EFD_CLOEXEC | EFD_NONBLOCK))
        guard descriptor >= 0 else { return nil }
    }

    deinit { close(descriptor) }

    /// Leaves a command. Returns `false` when the engine has ended and nobody will read it.
    @discardableResult
    func post(_ command: Command) -> Bool {
        let (isOpen, wakes) = state.withLock { state in
            guard !state.isClosed else { return (false, false) }
            state.commands.append(command)
            defer { state.isSleeping = false }
            return (true, state.isSleeping)
        }
        if wakes { wake() }
        return isOpen
    }

    /// Takes all commands. Engine only.
    func take(into commands: inout [Command]) {
        state.withLock { state in
            state.isSleeping = false
            swap(&state.commands, &commands)
        }
    }

    /// Says that the engine is about to sleep; `false` when there is something to do first. Engine only.
    func prepareToSleep() -> Bool {
        state.withLock { state in
            state.isSleeping = state.commands.isEmpty
            return state.isSleeping
        }
    }

    /// Ends the mailbox and returns what was left in it. Engine only.
    func closeAndTakeRest() -> [Command] {
        state.withLock { state in
            state.isClosed = true
            defer { state.commands = [] }
            return state.commands
        }
    }

    private func wake() {
        var one: UInt64 = 1
        // It cannot fail but for a full counter, and then the engine is awake anyway.
        _ = write(descriptor, &one, MemoryLayout.size(ofValue: one))
    }
}
