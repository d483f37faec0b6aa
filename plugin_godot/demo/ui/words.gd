class_name Words
extends RefCounted
## The words of the interface in Chinese. English ones are their own keys.

const CHINESE := {
	"Save (F5)": "保存 (F5)",
	"Load (F9)": "读取 (F9)",
	"Profiler (F3)": "性能 (F3)",
	"Walk: arrow keys or WASD. Go near somebody to talk.": "方向键或 WASD 行走,走近村民即可交谈。",
	"Enter: talk to %s": "按回车键与%s交谈",
	"Say something to %s …   (Esc: walk on)": "对%s说点什么……(Esc:继续行走)",
	"Loading %s": "正在加载 %s",
	"Saving …": "正在保存……",
	"Saved %d conversations (%s).": "已保存 %d 段对话(%s)。",
	"Loaded %d conversations.": "已读取 %d 段对话。",
	"Nothing was saved: %s": "保存失败:%s",
	"Nothing was loaded: %s": "读取失败:%s",
	"%s cannot answer: %s": "%s无法回答:%s",
	"frame time": "帧时间",
	"replies": "回答",
	"prompts": "提示",
	"tokens/s": "词元/秒",
	"at work / waiting": "进行中 / 等待",
	"conversations (KV)": "对话 (KV)",
	"weights": "权重",
	"process": "进程",
	"Villagers": "村民",
	"first token": "首词元",
	"turns": "轮次",
	"silent": "安静",
	"thinks": "思考",
	"talks": "说话",
}


static func install() -> void:
	var chinese := Translation.new()
	chinese.locale = "zh"
	for english: String in CHINESE:
		var translated: String = CHINESE[english]
		chinese.add_message(english, translated)
	TranslationServer.add_translation(chinese)
	speak_chinese(OS.get_locale_language() == "zh" and UiFont.has_chinese())


static func speak_chinese(chinese: bool) -> void:
	TranslationServer.set_locale("zh" if chinese else "en")


static func are_chinese() -> bool:
	return TranslationServer.get_locale().begins_with("zh")


## For what has no tr() of its own.
static func of(english: String) -> String:
	return TranslationServer.translate(english)
