"use strict";
// What the player says, in the language of the page.

const REPLAY_WORDS = {
  en: {
    sent: "Sent", queue: "Queue of the process", own: "Own transactions", batch: "One transaction", shop: "The shop",
    process: "process {0}", accepted: "Accepted", refused: "Refused", unknown: "Unknown", way: "Under way",
    queued: "In a queue", selling: "In a transaction", oversold: "Oversold", picture: "Requests as dots, from the buyers on the left to their answers on the right",
    moment: "Moment", speed: "Speed", real: "real time", play: "Play", pause: "Pause", back: "Previous event", next: "Next event",
    first: "First violation", none: "Nothing was broken in this run.", part: "{0} of {1} requests, those around the violations.",
    start: "{0} of {1} requests, the first of them.", all: "{0} requests.", foreign: "The shop recorded nothing: dots go from request to answer.",
    now: "{0} ms", last: "What happened last", broken: "{0}, {1}, is broken: {2}", events: "Events up to this moment",
    keys: "Keys: space plays and pauses, the arrows step from event to event, v goes to the first violation, + and − change the speed.",
    e_sent: "{0} sends a request ({1})", e_queued: "{0} is in the queue of process {1}", e_own: "{0} is being sold to by process {1}",
    e_begun: "Process {0} begins a transaction, requests: {1}", e_committed: "Process {0} has committed, requests: {1}",
    e_committed_one: "Process {1} has committed the request of {0}", e_answered: "{0} is answered {1}: {2}", e_mark: "{0} is broken",
    not_json: "This file is no replay: it is not JSON.", not_replay: "This file is no replay: it has no “replay” version {0}.",
    damaged: "This replay is damaged: {0}.", empty: "This replay has no requests.",
  },
  zh: {
    sent: "已发送", queue: "进程内的队列", own: "各自的事务", batch: "同一个事务", shop: "商店",
    process: "进程 {0}", accepted: "成功", refused: "被拒绝", unknown: "未知", way: "进行中",
    queued: "排队中", selling: "事务中", oversold: "超卖", picture: "每个请求是一个点：从左侧的买家到右侧的应答",
    moment: "时刻", speed: "速度", real: "实时", play: "播放", pause: "暂停", back: "上一个事件", next: "下一个事件",
    first: "第一次违规", none: "这次运行没有违反任何性质。", part: "{1} 个请求中的 {0} 个：违规前后的请求。",
    start: "{1} 个请求中最先的 {0} 个。", all: "共 {0} 个请求。", foreign: "商店没有记录：点直接从请求到应答。",
    now: "{0} 毫秒", last: "最近发生的事", broken: "{0}（{1}）被违反：{2}", events: "此刻之前的事件",
    keys: "按键：空格播放或暂停，左右箭头逐个事件移动，v 跳到第一次违规，+ 和 − 改变速度。",
    e_sent: "{0} 发出请求（{1}）", e_queued: "{0} 进入进程 {1} 的队列", e_own: "进程 {1} 正在处理 {0} 的请求",
    e_begun: "进程 {0} 为 {1} 个请求开始一个事务", e_committed: "进程 {0} 已提交 {1} 个请求",
    e_committed_one: "进程 {1} 已提交 {0} 的请求", e_answered: "{0} 得到应答 {1}：{2}", e_mark: "{0} 被违反",
    not_json: "此文件不是回放：不是 JSON。", not_replay: "此文件不是回放：没有版本为 {0} 的 “replay”。",
    damaged: "此回放已损坏：{0}。", empty: "此回放没有任何请求。",
  },
};

function replayWords() {
  return REPLAY_WORDS[document.documentElement.lang.startsWith("zh") ? "zh" : "en"];
}

const fillIn = (text, ...values) => text.replace(/\{(\d)\}/g, (_, number) => values[number]);
