class_name FrameMeter
extends Node
## The time from frame to frame, in milliseconds.

const KEPT := 600

var is_recording := false
## What was measured since is_recording was set; cleared by who reads it.
var recorded: PackedFloat64Array = []
## The last frames, the newest one last.
var recent: PackedFloat64Array = []

var _last_microseconds := 0


func _process(_delta: float) -> void:
	var now := Time.get_ticks_usec()
	if _last_microseconds > 0:
		var milliseconds := (now - _last_microseconds) / 1000.0
		recent.append(milliseconds)
		if recent.size() > KEPT:
			recent = recent.slice(recent.size() - KEPT)
		if is_recording:
			recorded.append(milliseconds)
	_last_microseconds = now


## p50, p99, worst, mean, and the share of frames that took more than half a frame of 60 Hz too long.
static func summarize(times: PackedFloat64Array) -> Dictionary:
	if times.is_empty():
		return {"frames": 0, "mean": 0.0, "p50": 0.0, "p99": 0.0, "worst": 0.0, "late_share": 0.0}
	var sorted := times.duplicate()
	sorted.sort()
	var sum := 0.0
	var late := 0
	for time in sorted:
		sum += time
		late += 1 if time > 25.0 else 0
	return {
		"frames": sorted.size(),
		"mean": sum / sorted.size(),
		"p50": percentile(sorted, 0.5),
		"p99": percentile(sorted, 0.99),
		"worst": sorted[-1],
		"late_share": float(late) / sorted.size(),
	}


static func percentile(sorted: PackedFloat64Array, share: float) -> float:
	return sorted[clampi(ceili(share * sorted.size()) - 1, 0, sorted.size() - 1)]
