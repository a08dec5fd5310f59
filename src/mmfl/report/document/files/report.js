"use strict";
charts.start(JSON.parse(document.getElementById("content").textContent));
