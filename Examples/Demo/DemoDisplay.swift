import LATNetworking

/// Where the steps of the demo are shown: for each a title, the call in Swift, the outcome and its timings.
package protocol DemoDisplay: Sendable {
    func open(address: String) throws
    func step(_ number: Int, _ title: String, _ call: String) throws
    func bar(_ label: String) -> any DemoBar
    func show(_ outcome: DemoOutcome) throws
    func close(succeeded: Int, of count: Int, after time: Duration) throws

    /// A size, a time and a number, written for people.
    func bytes(_ count: Int64) -> String
    func duration(_ duration: Duration) -> String
    func grouped(_ number: Int) -> String
}

/// The progress of a transfer.
package protocol DemoBar: Sendable {
    func update(_ completed: Int64, of total: Int64?)
    func clear()
}

/// The outcome of a step.
package struct DemoOutcome: Sendable {
    package var isExpected: Bool
    package var text: String
    package var timings: Timings?
    /// The total time to show in place of that in the timings, such as that of two downloads.
    package var total: Duration?
    package var figures: [(name: String, value: String)]?
}
