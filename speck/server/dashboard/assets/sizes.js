// How large jobs and topics are drawn, px: what the layout and the drawing agree on.
export const JOB = { width: 176, height: 52 };
export const TOPIC = { height: 24, least: 84, most: 210, letter: 6.7, room: 72 };

export const topicWidth = (name) => {
  const width = TOPIC.room + TOPIC.letter * name.length;
  return Math.round(Math.min(TOPIC.most, Math.max(TOPIC.least, width)));
};
