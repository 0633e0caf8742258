/* The mouse and the finger on the sheet: select words, select and relate entities. */

import { createSvg } from "../../web/shared/dom.js";

const DRAG_DISTANCE = 5;

/**
 * Add the pointer to a sheet. `onMenu()` is called when something was selected that has a menu.
 *
 * Dragging over words selects them, dragging from one entity to another relates them. A finger only taps, because
 * dragging scrolls.
 */
export function addPointer(sheet, editor, onMenu) {
  const { container } = sheet;
  let press = null;

  const keyAt = ({ target }) => target.closest?.("[data-key]")?.dataset.key ?? null;
  const isEntity = (key) => editor.items.entities.some((entity) => entity.key === key);
  const entityUnder = ({ clientX: x, clientY: y }) => {
    const target = document.elementFromPoint(x, y);
    const key = target?.closest("[data-key]")?.dataset.key;
    if (key && isEntity(key)) return key;
    const word = target?.closest("[data-word]")?.dataset.word;
    return word === undefined ? null : (editor.entitiesAt(Number(word))[0]?.key ?? null);
  };

  container.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || editor.isEmpty) return;
    const { clientX: x, clientY: y } = event;
    const key = keyAt(event);
    press = { x, y, key, word: key ? null : sheet.wordAt(x, y), isTouch: event.pointerType === "touch", isDrag: false };
    if (press.isTouch) return;
    event.preventDefault();
    container.focus({ preventScroll: true });
  });

  window.addEventListener("pointermove", (event) => {
    if (!press || press.isTouch) return;
    press.isDrag ||= Math.hypot(event.clientX - press.x, event.clientY - press.y) > DRAG_DISTANCE;
    if (!press.isDrag) return;
    if (press.key && isEntity(press.key)) {
      drawThread(sheet, press, event);
      sheet.select({ key: entityUnder(event) ?? undefined, head: press.key });
    } else if (press.word !== null) {
      const word = sheet.wordAt(event.clientX, event.clientY, editor.words.all[press.word].sentence);
      if (editor.anchor !== press.word || editor.cursor !== word || editor.key) editor.selectWords(press.word, word);
    }
  });

  window.addEventListener("pointerup", (event) => {
    if (!press) return;
    const done = press;
    press = null;
    removeThread(container);
    if (done.isDrag) finishDrag(done, event);
    else click(done, event);
  });

  window.addEventListener("pointercancel", () => {
    press = null;
    removeThread(container);
  });

  // A double click selects a word inside an entity.
  container.addEventListener("dblclick", (event) => {
    const word = event.target.closest("[data-word]")?.dataset.word;
    if (word === undefined || editor.link) return;
    editor.selectWords(Number(word), Number(word));
    onMenu();
  });

  function finishDrag({ key, word }, event) {
    if (key && isEntity(key)) {
      const other = entityUnder(event);
      if (!other || other === key) return editor.onShow();
      editor.startLink(key);
      editor.endLink(other);
    } else if (word === null) return undefined;
    return onMenu();
  }

  function click({ key, word }, event) {
    const isOnWord = word !== null && event.target.dataset?.word !== undefined;
    const entity = key ?? (isOnWord ? editor.entitiesAt(word)[0]?.key : null) ?? null;
    const isSecond = entity !== editor.key && isEntity(entity) && isEntity(editor.key);
    if (editor.link && !editor.link.tail) {
      if (entity && isEntity(entity)) editor.endLink(entity);
      else return editor.cancel();
    } else if (event.shiftKey && isSecond) {
      editor.startLink(editor.key);
      editor.endLink(entity);
    } else if (event.shiftKey && word !== null && editor.anchor !== null) editor.moveTo(word, { extend: true });
    else if (entity) {
      editor.link = null;
      editor.selectKey(entity);
    } else if (isOnWord) {
      editor.link = null;
      editor.selectWords(word, word);
    } else {
      editor.link = null;
      return editor.cancel();
    }
    return onMenu();
  }
}

/** Draw a line from an entity to the pointer. */
function drawThread({ container }, { x, y }, { clientX, clientY }) {
  removeThread(container);
  const line = createSvg("line", { x1: x, y1: y, x2: clientX, y2: clientY });
  container.append(createSvg("svg", { class: "thread", "aria-hidden": "true" }, line));
}

function removeThread(container) {
  container.querySelector(".thread")?.remove();
}
