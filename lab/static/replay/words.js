"use strict";
// What the player says, in the language of the page.

const REPLAY_WORDS = {
  en: {
    sent: "Sent", shop: "The shop", sold: "Sold", repeated: "Told again", show: "all in 30 s",
    accepted: "Accepted", refused: "Refused", unknown: "Unknown", way: "Under way",
    answers: "Sold (hollow: told again)",
    oversold: "Oversold", picture: "Requests as dots, from the buyers on the left to their answers on the right",
    moment: "Moment", speed: "Speed", real: "real time", play: "Play", pause: "Pause", back: "Previous event", next: "Next event",
    first: "First violation", none: "Nothing was broken in this run.", part: "{0} of {1} requests, those around the violations.",
    start: "{0} of {1} requests, the first of them.", all: "{0} requests.",
    now: "{0} ms", broken: "{0}, {1}, is broken: {2}",
    keys: "Keys: space plays and pauses, the arrows step from event to event, v goes to the first violation, + and − change the speed.",
    e_sent: "{0} sends a request ({1})", e_answered: "{0} is answered {1}: {2}", e_mark: "{0} is broken",
    not_json: "This file is no replay: it is not JSON.", not_replay: "This file is no replay: it has no “replay” version {0}.",
    damaged: "This replay is damaged: {0}.", empty: "This replay has no requests.",
  },
  zh: {
    sent: "已发送", shop: "商店", sold: "售出", repeated: "重复告知", show: "全程 30 秒",
    accepted: "成功", refused: "被拒绝", unknown: "未知", way: "进行中",
    answers: "售出（空心：重复告知）",
    oversold: "超卖", picture: "每个请求是一个点：从左侧的买家到右侧的应答",
    moment: "时刻", speed: "速度", real: "实时", play: "播放", pause: "暂停", back: "上一个事件", next: "下一个事件",
    first: "第一次违规", none: "这次运行没有违反任何性质。", part: "{1} 个请求中的 {0} 个：违规前后的请求。",
    start: "{1} 个请求中最先的 {0} 个。", all: "共 {0} 个请求。",
    now: "{0} 毫秒", broken: "{0}（{1}）被违反：{2}",
    keys: "按键：空格播放或暂停，左右箭头逐个事件移动，v 跳到第一次违规，+ 和 − 改变速度。",
    e_sent: "{0} 发出请求（{1}）", e_answered: "{0} 得到应答 {1}：{2}", e_mark: "{0} 被违反",
    not_json: "此文件不是回放：不是 JSON。", not_replay: "此文件不是回放：没有版本为 {0} 的 “replay”。",
    damaged: "此回放已损坏：{0}。", empty: "此回放没有任何请求。",
  },
};

function replayWords() {
  return REPLAY_WORDS[document.documentElement.lang.startsWith("zh") ? "zh" : "en"];
}

const fillIn = (text, ...values) => text.replace(/\{(\d)\}/g, (_, number) => values[number]);
