import FoundationEssentials
import Glibc

/// The output of another program.
enum CommandOutput {
    struct Failure: Error {
        let program: String
    }

    /// Runs a program on its own thread and returns its standard output.
    static func run(_ program: String, _ argument: String) async throws -> String {
        try await withCheckedThrowingContinuation { continuation in
            let thread = Thread(program: program, argument: argument) { continuation.resume(with: $0) }
            thread.start()
        }
    }

    private final class Thread: Sendable {
        let program: String
        let argument: String
        let done: @Sendable (Result<String, any Error>) -> Void

        init(program: String, argument: String, done: @escaping @Sendable (Result<String, any Error>) -> Void) {
            self.program = program
            self.argument = argument
            self.done = done
        }

        func start() {
            var thread = pthread_t()
            pthread_create(
                &thread, nil,
                { box in
                    if let box { Unmanaged<Thread>.fromOpaque(box).takeRetainedValue().run() }
                    return nil
                }, Unmanaged.passRetained(self).toOpaque())
            pthread_detach(thread)
        }

        private func run() {
            // The test made the path, so it contains no quote.
            guard let pipe = popen("\(program) '\(argument)'", "re") else {
                return done(.failure(Failure(program: program)))
            }
            var text: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 4_096)
            while case let count = fread(&buffer, 1, buffer.count, pipe), count > 0 { text += buffer[..<count] }
            pclose(pipe)
            done(.success(String(decoding: text, as: UTF8.self)))
        }
    }
}
