// Prints the table of Documentation/urlsession-parity.md, measured now on this machine.

print("| row | question | LATNetworking | URLSession |")
print("|--|--|--|--|")
for probe in Probes.all {
    let ours = await Probe.answer(probe.ours)
    let theirs = await Probe.answer(probe.theirs)
    print("| \(probe.row) | \(probe.question) | \(ours) | \(theirs) |")
}
