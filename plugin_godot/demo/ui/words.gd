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
	"No model, no talk": "没有模型,就无法交谈",
	"The villagers need a language model: a GGUF file that can chat.": "村民需要一个语言模型:能够对话的 GGUF 文件。",
	"Bring the default model (491 MB) and start again, in the root of the repository:": "在仓库的根目录中运行,即可下载默认模型 (491 MB) 并重新启动:",
	"Or name a file that you have:": "或者指定已有的文件:",
	"Choose a file …": "选择文件……",
	"Models": "模型",
	"Quit": "退出",
	"%s: not set": "%s: 未设置",
	"%s: %s, which is not there": "%s: %s,文件不存在",
	"%s: no model": "%s: 没有模型",
	"The addon is not here yet": "插件尚未安装",
	"This project needs the folder addons/banter with its library, which is built, not downloaded.": "本项目需要文件夹 addons/banter 及其中的库;库需要编译,不提供下载。",
	"In a terminal, in the root of the repository:": "在终端中,在仓库的根目录下运行:",
	"That builds the addon, puts it here, brings a model and a font, and starts this demo.": "该命令会编译插件并放到这里,下载模型和字体,然后启动本演示。",
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
## What can go wrong in the demo; Godot's own words for it are English.
const ERRORS := {
	ERR_FILE_NOT_FOUND: "找不到文件",
	ERR_FILE_CANT_OPEN: "无法打开文件",
	ERR_FILE_CANT_READ: "无法读取文件",
	ERR_FILE_CANT_WRITE: "无法写入文件",
	ERR_FILE_NO_PERMISSION: "没有访问文件的权限",
	ERR_FILE_UNRECOGNIZED: "无法识别的文件格式",
	ERR_FILE_CORRUPT: "文件已损坏",
	ERR_CANT_CREATE: "无法创建",
	ERR_OUT_OF_MEMORY: "内存不足",
	ERR_INVALID_DATA: "数据无效",
	ERR_PARSE_ERROR: "解析错误",
	ERR_TIMEOUT: "超时",
	ERR_SKIP: "已取消",
	ERR_UNAVAILABLE: "不可用",
	ERR_UNCONFIGURED: "没有模型",
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


## An error in few words.
static func of_error(error: int) -> String:
	var chinese: String = ERRORS.get(error, "")
	return chinese if are_chinese() and not chinese.is_empty() else error_string(error)


## A failure with its sentence, which the engine tells in English only.
static func of_failure(code: int, message: String) -> String:
	return "%s(%s)" % [of_error(code), message] if are_chinese() else message


## For what has no tr() of its own.
static func of(english: String) -> String:
	return TranslationServer.translate(english)
