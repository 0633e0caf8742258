/* The keyboard. `KEYS` is also the list that the help shows. */

import { isRelation } from "./order.js";

/** @type {[string, [string[], string][]][]} */
export const KEYS = [
  ["Words", [
    [["←", "→", "↑", "↓"], "move over the words"],
    [["Shift", "←", "→"], "select more or fewer words"],
    [["1", "–", "9"], "give a label to the words, the entity or the relation"],
    [["l"], "open the menu with all labels"],
  ]],
  ["Entities and relations", [
    [["e", "E"], "next, previous entity"],
    [["t", "T"], "next, previous relation"],
    [["Enter"], "on an entity: start a relation; on a second one: make it"],
    [["r"], "start a relation at the selected entity"],
    [["f"], "reverse the direction of a relation"],
    [["Shift", "←", "→"], "on a selected entity: move its end; with Alt its start"],
    [["Delete", "x"], "delete, or reject a suggestion"],
  ]],
  ["Suggestions", [
    [["s", "S"], "next, previous suggestion"],
    [["a"], "accept it and go to the next one"],
    [["x"], "reject it and go to the next one"],
    [["A", "X"], "accept all, reject all"],
    [["h"], "hide or show suggestions"],
  ]],
  ["Documents", [
    [["n", "p"], "next, previous document"],
    [["d"], "done, and go to the next document"],
    [["0"], "nothing here, and go to the next document"],
    [["m"], "write a note"],
    [["/"], "search"],
  ]],
  ["Page", [
    [["Ctrl", "Z"], "undo"],
    [["Ctrl", "Shift", "Z"], "redo"],
    [["Escape"], "cancel, close, go back to the text"],
    [["?"], "show these keys"],
  ]],
];

/**
 * Add the keyboard to the page.
 *
 * `actions` has the functions next, previous, done, nothing, note, search, help and toggleOpen. `isActive()` tells
 * whether the view with the document is shown; `usesLetters()` whether single letters act outside of the sheet.
 */
export function addKeys({ sheet, editor, menu, actions, isActive, usesLetters }) {
  document.addEventListener("keydown", (event) => {
    if (event.isComposing || event.defaultPrevented || document.querySelector("dialog[open]")) return;
    const target = /** @type {Element} */ (event.target);
    const isTyping = target.matches("input, select, textarea");
    if (isTyping) {
      if (event.key === "Escape" && isActive()) sheet.container.focus();
      return;
    }
    const isInSheet = target === document.body || sheet.container.contains(target) || menu.element.contains(target);
    const hasModifier = event.ctrlKey || event.metaKey;
    const isHandled = hasModifier ? isActive() && withControl(event) : withoutControl(event, isInSheet);
    if (isHandled) event.preventDefault();
  });

  function withoutControl(event, isInSheet) {
    if (isActive() && ((isInSheet && onSheet(event)) || onPage(event, isInSheet))) return true;
    return event.key === "?" && act(actions.help);
  }

  const act = (action) => {
    action();
    return true;
  };

  function withControl({ key, shiftKey, altKey }) {
    if (altKey || editor.isEmpty) return false;
    if (key.toLowerCase() === "z") return act(() => (shiftKey ? editor.redo() : editor.undo()));
    return key.toLowerCase() === "y" && act(() => editor.redo());
  }

  function onPage({ key }, isInSheet) {
    if (key === "Escape" && !isInSheet) return act(() => sheet.container.focus());
    if (!isInSheet && !usesLetters()) return false;
    const action = { n: actions.next, p: actions.previous, "/": actions.search, m: actions.note }[key];
    return Boolean(action) && act(action);
  }

  function onSheet(event) {
    const { key } = event;
    if (editor.isEmpty) return false;
    if (/^[1-9]$/u.test(key) && !event.altKey) return chooseNumber(Number(key));
    // Enter and the space bar press the buttons of the menu.
    if (menu.element.contains(event.target) && (key === "Enter" || key === " " || key === "Tab")) return false;
    if (key in MOVES) return move(event);
    const action = commands[key];
    return Boolean(action) && !event.altKey && act(action);
  }

  const removing = () => {
    editor.remove();
    if (!editor.key) menu.close();
  };
  const commands = {
    e: () => editor.step("entity", 1),
    E: () => editor.step("entity", -1),
    t: () => editor.step("relation", 1),
    T: () => editor.step("relation", -1),
    s: () => editor.step("open", 1),
    S: () => editor.step("open", -1),
    a: () => editor.accept(),
    A: () => editor.acceptAll(),
    X: () => editor.rejectAll(),
    x: removing,
    Delete: removing,
    Backspace: removing,
    f: () => editor.flip(),
    l: () => menu.open({ takesFocus: true }),
    r: () => relate(),
    Enter: () => relate({ opensMenu: true }),
    h: () => actions.toggleOpen(),
    d: () => actions.done(),
    0: () => actions.nothing(),
    Escape: () => {
      const wasOpen = menu.isOpen;
      menu.close();
      if (!wasOpen || editor.link) editor.cancel();
    },
  };

  function chooseNumber(number) {
    const label = editor.choices[number - 1];
    if (!label) {
      const message = editor.choices.length ? `There is no label ${number}.` : "Select words first.";
      editor.announce(message, { isProblem: true });
      return true;
    }
    editor.applyLabel(label);
    menu.close();
    return true;
  }

  /** Start or end a relation at the selected entity, or else at the shortest one under the cursor. */
  function relate({ opensMenu = false } = {}) {
    const { item } = editor;
    const chosen = item && !isRelation(item) ? item : null;
    const entity = chosen ?? (editor.cursor === null || item ? null : editor.entitiesAt(editor.cursor)[0]);
    if (!entity) {
      if (opensMenu && (item || editor.range)) return menu.open({ takesFocus: true });
      return editor.announce("Move to an entity first.", { isProblem: true });
    }
    if (!editor.link) return editor.startLink(entity.key);
    editor.endLink(entity.key);
    if (editor.link?.tail) menu.open();
    return undefined;
  }

  function move(event) {
    const { key, shiftKey, altKey } = event;
    if (editor.words.length === 0 || event.target.closest?.("button")) return false;
    const { item } = editor;
    const by = MOVES[key];
    if (shiftKey && item && !isRelation(item) && (key === "ArrowLeft" || key === "ArrowRight")) {
      editor.resize(altKey ? "start" : "end", by * direction());
      return true;
    }
    if (altKey) return false;
    if (!editor.link?.tail) menu.close();
    const from = editor.cursor;
    if (from === null) editor.moveTo(firstShown());
    else editor.moveTo(targetOf(key, from), { extend: shiftKey });
    sheet.reveal(editor.cursor);
    return true;
  }

  function targetOf(key, from) {
    const { first, last } = editor.words.sentences[editor.words.all[from].sentence];
    if (key === "Home") return first;
    if (key === "End") return last;
    if (key === "ArrowUp" || key === "ArrowDown") return sheet.wordInLine(from, MOVES[key]) ?? from;
    return from + MOVES[key] * direction();
  }

  /** -1 if the text runs from right to left, so that the arrows follow the eye. */
  const direction = () => (editor.cursor !== null && sheet.isRightToLeft(editor.cursor) ? -1 : 1);

  const firstShown = () => {
    const { left, top } = sheet.container.getBoundingClientRect();
    return sheet.wordAt(left, Math.max(top, 0)) ?? 0;
  };
}

const MOVES = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1, Home: 0, End: 0 };
