/// Where the body of a response goes, chunk by chunk.
enum BodySink {
    /// Kept, for a report.
    case memory
    /// Into a file that appears when it is whole.
    case file(OutputFile)
    /// To standard output as it is.
    case pipe
    /// To a person: JSON laid out, binary left out.
    case terminal
}
