#include "core/causes.h"

#include "base/die.h"
#include "core/reasons.h"

uint8_t causes_add(struct causes *c, struct str last_error)
{
	char text[FAULT_REASON_BYTES];
	size_t room = CAUSE_OTHER;
	reasons_read(last_error, text);
	for (size_t i = 1; i <= CAUSES_MAX; i++) {
		if (c->list[i].rows == 0) {
			room = room == CAUSE_OTHER ? i : room;
		} else if (strcmp(c->list[i].text, text) == 0) {
			room = i;
			break;
		}
	}
	if (room != CAUSE_OTHER)
		memcpy(c->list[room].text, text, sizeof text);
	c->list[room].rows++;
	return (uint8_t)room;
}

void causes_remove(struct causes *c, uint8_t cause)
{
	if (cause == CAUSE_NONE)
		return;
	ASSERT(cause < CAUSES_END && c->list[cause].rows > 0);
	c->list[cause].rows--;
}
